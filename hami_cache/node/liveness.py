"""Which slots of a live cache belong to processes that are gone, told from the host's /proc.

A host pid of 0, or one equal to the pid inside the container, was never detected: nothing is known
of such a process, and it counts. Everything else is asked of the host that the operator mounted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hami_cache.forensics.liveness import HostProcesses

SLACK_NS = 2_000_000_000
"""How far a file's time stamp and a process's start may disagree: both have coarse clocks."""

MAX_STAT_BYTES = 1 << 14


class HostLiveness:
    """Asks a host's /proc, for `UsageReader`.

    Args:
        root: the host's /proc, mounted into our container.

    Raises:
        ConfigError: it is no directory.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        HostProcesses(root)
        self._ticks = os.sysconf("SC_CLK_TCK")

    def dead(self, processes: Sequence[tuple[int, int, int]], touched_ns: int) -> list[bool]:
        """For each (pid, hostpid, status): whether its process is surely gone.

        Args:
            processes: the slots below proc_num, in order.
            touched_ns: when the cache file was last modified. A writer modifies it when it opens
                it, so a process that started later cannot be the one that a slot speaks of.
        """
        host = HostProcesses(self._root)
        return [
            status != 0
            and hostpid > 0
            and hostpid != pid
            and (
                host.of_pids(pid, hostpid).state == "dead"
                or self._started_ns(hostpid) > touched_ns + SLACK_NS
            )
            for pid, hostpid, status in processes
        ]

    def _started_ns(self, pid: int) -> int:
        """When a process started, in nanoseconds since the epoch; 0 where that cannot be told."""
        stat = self._read(f"{pid}/stat").rpartition(")")[2].split()
        boot = [line.split()[1] for line in self._read("stat").splitlines() if line[:6] == "btime "]
        # Field 22 is the start in ticks since boot; the first two fields lie before the ")".
        if len(stat) < 20 or not boot or not (stat[19].isdecimal() and boot[0].isdecimal()):
            return 0
        return int(boot[0]) * 10**9 + int(stat[19]) * 10**9 // self._ticks

    def _read(self, name: str) -> str:
        try:
            with (self._root / name).open("rb") as file:
                return file.read(MAX_STAT_BYTES).decode("ascii", "replace")
        except OSError:
            return ""
