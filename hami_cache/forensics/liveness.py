"""Whether a process of a cache still lives, told from a host's /proc.

A slot names a process twice: `pid` inside the container and `hostpid` on the host, where it was
detected. The NSpid line of /proc/<hostpid>/status ties the two together: its last number is the pid
that the process itself sees. A number that is used again by another process shows itself there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from hami_cache.errors import ConfigError
from hami_cache.model import Slot

State = Literal["alive", "dead", "unknown"]

MAX_STATUS_BYTES = 1 << 16
"""A status file has about 1.5 kB; more is read from nothing that calls itself one."""


@dataclass(frozen=True, slots=True)
class Liveness:
    """Whether a process lives, and how we know."""

    state: State
    detail: str


UNASKED = Liveness("unknown", "no host /proc was given")


@dataclass(frozen=True, slots=True)
class _Status:
    """What a status file says; `inner`, the innermost pid, is None where the kernel is too old."""

    inner: int | None
    zombie: bool


class HostProcesses:
    """The processes of one host.

    Args:
        root: its /proc, mounted or copied.

    Raises:
        ConfigError: it is no directory.
    """

    def __init__(self, root: Path | str) -> None:
        self._root = Path(root)
        if not self._root.is_dir():
            raise ConfigError("is not a directory", path=root, hint="give the /proc of the host")
        # With hidepid an unprivileged reader of a real /proc does not see other people's processes,
        # the host's first one included. Nothing missing there is known to be dead.
        real = (self._root / "self").is_symlink()
        self._sees_all = not real or (self._root / "1" / "status").exists()

    def of_slot(self, slot: Slot) -> Liveness:
        """Whether the process of a slot lives."""
        return self.of_pids(slot.pid, slot.hostpid)

    def of_owner(self, pid: int, slots: Iterable[Slot]) -> Liveness:
        """Whether the owner of the region's lock lives.

        Args:
            pid: inside the container.
            slots: of the same cache: one of them may know the owner's host pid.
        """
        hostpid = next((s.hostpid for s in slots if s.counted and s.pid == pid and s.hostpid), 0)
        return self.of_pids(pid, hostpid)

    def of_pids(self, pid: int, hostpid: int) -> Liveness:
        """Whether the process of a pid inside its container and a pid on the host lives."""
        if hostpid <= 0:
            return self._by_inner_pid(pid, "its host pid is not known")
        try:
            status = self._status(hostpid)
        except OSError as error:
            return Liveness("unknown", f"host pid {hostpid} cannot be looked at: {error.strerror}")
        if status is None:
            if not self._sees_all:
                return Liveness("unknown", f"host pid {hostpid} is not there, or hidden from us")
            return Liveness("dead", f"host pid {hostpid} does not exist")
        if status.zombie:
            return Liveness("dead", f"host pid {hostpid} has exited and waits to be collected")
        if status.inner is None:
            return Liveness("unknown", f"host pid {hostpid} exists, but names no inner pid")
        if status.inner == pid:
            return Liveness("alive", f"host pid {hostpid} is pid {pid} in its container")
        return self._by_inner_pid(pid, f"host pid {hostpid} is another process now")

    def _by_inner_pid(self, pid: int, reason: str) -> Liveness:
        """Other containers have that pid too, so only its absence from the host says something."""
        if self._inner_pids is None or pid in self._inner_pids:
            return Liveness("unknown", reason)
        return Liveness("dead", f"{reason}, and no process of the host sees itself as pid {pid}")

    @cached_property
    def _inner_pids(self) -> frozenset[int] | None:
        """The innermost pids of all processes; None where some of them cannot be told."""
        if not self._sees_all:
            return None
        found = set()
        for entry in self._root.iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                status = self._status(int(entry.name))
            except OSError:
                return None
            if status is None:
                continue  # it ended while we looked
            if status.inner is None:
                return None
            found.add(status.inner)
        return frozenset(found)

    def _status(self, pid: int) -> _Status | None:
        """A process's status; None where there is no such process."""
        folder = self._root / str(pid)
        try:
            with (folder / "status").open("rb") as file:
                text = file.read(MAX_STATUS_BYTES).decode("ascii", "replace")
        except (FileNotFoundError, ProcessLookupError):
            return _Status(None, False) if folder.is_dir() else None
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        numbers = fields.get("NSpid", "").split()
        inner = int(numbers[-1]) if numbers and numbers[-1].isdecimal() else None
        return _Status(inner, fields.get("State", "").strip()[:1] in ("Z", "X"))
