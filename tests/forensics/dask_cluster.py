"""A real Dask cluster on this machine: a scheduler and workers in processes of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType


class Cluster:
    """A scheduler with workers; a context manager.

    Attributes:
        address: of the scheduler.
        workers: the processes.
    """

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._count = workers
        self._stack = ExitStack()
        self.workers: list[subprocess.Popen[str]] = []
        self.address = ""

    def __enter__(self) -> Cluster:
        scheduler = self._start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"
        )
        self.address = _wait(scheduler, r"Scheduler at:\s+(tcp://\S+)")
        worker = ("dask_worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        self.workers = [self._start(*worker) for _ in range(self._count)]
        for process in self.workers:
            _wait(process, r"(Registered to):")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _start(self, module: str, *options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", *options],
            cwd=self._folder,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._stack.callback(_end, process)
        return process


def _wait(process: subprocess.Popen[str], pattern: str) -> str:
    """Read a process's log up to a line that matches."""
    assert process.stderr is not None
    log = []
    for line in process.stderr:
        log.append(line)
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError("".join(log))


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stderr is not None
    process.stderr.close()
