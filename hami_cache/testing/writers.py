"""Live writers: processes and threads that write into a cache at full speed, as libvgpu would.

The writer itself is `native/testing/writer.c`, compiled once; its head lists modes and orders.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from hami_cache.errors import ConfigError
from hami_cache.spec.layout import Layout
from hami_cache.spec.table import OffsetTable, offset_table
from hami_cache.testing.builder import CacheBuilder
from hami_cache.testing.sources import source

Mode = Literal["random", "ring", "joint", "still", "churn"]
Order = Literal["exit", "kill", "die", "odd", "cut", "delete", "replace"]

SOURCE = source("writer.c")

UNIT_BITS = 8
"""The unit of the writers' thread number n (counted over all processes) is ``1 << 8 * (n % 6)``."""

_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-pthread")


def writer_program() -> Path:
    """The compiled writer, built when it is not in the user's cache directory yet.

    Raises:
        ConfigError: the C source or a C compiler is missing, or compiling fails.
    """
    compiler = os.environ.get("CC", "cc")
    try:
        source = SOURCE.read_bytes()
    except OSError:
        raise ConfigError(
            "the writer's source is not here", path=SOURCE, hint="reinstall hami-cache"
        ) from None
    key = hashlib.sha256(b"\0".join([source, compiler.encode(), *map(str.encode, _FLAGS)]))
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = root / "hami-cache" / f"writer-{key.hexdigest()[:16]}"
    if not program.exists():
        try:
            _build(compiler, program)
        except OSError as error:
            raise ConfigError(
                f"cannot keep the compiled writer: {error.strerror}",
                path=program.parent,
                hint="set XDG_CACHE_HOME to a directory that can be written",
            ) from None
    return program


def _build(compiler: str, program: Path) -> None:
    """Compile the writer into place in one step, whoever else does the same."""
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        fresh = Path(folder) / "writer"
        _compile([compiler, *_FLAGS, "-o", str(fresh), str(SOURCE)])
        fresh.replace(program)


def _compile(command: Sequence[str]) -> None:
    hint = "install a C compiler, or name one in CC"
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ConfigError(f"cannot run {command[0]}: {error.strerror}", hint=hint) from None
    if done.returncode:
        raise ConfigError(f"{command[0]} failed: {done.stderr.strip()}", path=SOURCE, hint=hint)


def writer_table(layout: Layout) -> str:
    """A layout as the text of ``name offset`` lines that the writer reads."""
    table = offset_table(layout)
    rows = {field.name: getattr(table, field.name) for field in fields(OffsetTable)}
    rows["sem"] = layout.field("sem").offset if layout.has("sem") else -1
    return "".join(f"{name} {value}\n" for name, value in rows.items())


class Writer:
    """Writers of one cache file, running until `stop`; a context manager.

    Args:
        path: the file. It is built, without processes, when it does not exist.
        layout: how to write it.
        mode: what every thread does; see the head of the C file.
        processes: real processes with a slot each.
        threads: of each process.
        devices: how many are written to, and how many a built file has.
        exit: how a process leaves: ``move`` as up to v1-seqlock, ``clear`` as since.
        pause_us: microseconds between calls; 0 is full speed.
        watcher_ms: milliseconds between a watcher's refills of sm_util and monitorused; 0 is none.
        population: how many processes one churning thread plays.
        hostpid_above: host pids are this much above the pids; 0 makes them the real ones.
        seed: of the random sizes.

    Attributes:
        pids: of the processes, which are the pids in their slots (not of churning ones).

    Raises:
        ConfigError: the writer cannot be compiled, or did not start; says why.
    """

    def __init__(
        self,
        path: Path | str,
        layout: Layout,
        mode: Mode = "random",
        *,
        processes: int = 1,
        threads: int = 1,
        devices: int = 1,
        exit: Literal["move", "clear"] = "move",
        pause_us: int = 0,
        watcher_ms: int = 0,
        population: int = 4,
        hostpid_above: int = 100_000,
        seed: int = 1,
    ) -> None:
        self.path = Path(path)
        if not self.path.exists():
            builder = CacheBuilder(layout)
            for _ in range(devices):
                builder.device()
            builder.write(self.path)
        options = {
            "mode": mode,
            "processes": processes,
            "threads": threads,
            "devices": devices,
            "exit": exit,
            "pause_us": pause_us,
            "watcher_ms": watcher_ms,
            "population": population,
            "hostpid_above": hostpid_above,
            "seed": seed,
        }
        with tempfile.NamedTemporaryFile("w", suffix=".table") as table:
            table.write(writer_table(layout))
            table.flush()
            command = [str(writer_program()), table.name, str(self.path)]
            self._process = subprocess.Popen(
                [*command, *(f"{key}={value}" for key, value in options.items())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            self.pids = self._ready()

    def _ready(self) -> tuple[int, ...]:
        word, *pids = self._answer().split() or [""]
        if word != "ready":
            _, errors = self._process.communicate()
            raise ConfigError(f"the writer did not start: {errors.strip()}", path=self.path)
        return tuple(map(int, pids))

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def order(self, order: Order, number: int = 0) -> None:
        """Give an order and wait until it is carried out.

        Args:
            order: see the head of the C file.
            number: of the process, from 0, or the bytes to cut to.

        Raises:
            ConfigError: the writer is gone.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{order} {number}\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):  # ValueError: closed, since it was stopped
            raise ConfigError("the writer is gone", path=self.path) from None
        if self._answer() != "done\n":
            raise ConfigError(f"the writer could not {order}", path=self.path)

    def stop(self) -> None:
        """Let every process exit cleanly and wait for the end; a second call does nothing."""
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
