"""The scan itself, on all cores: places become jobs, jobs run in processes, rows come in order.

What is under way at a time is bounded, so memory stays flat however many files there are.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, islice

from hami_cache.errors import HamiCacheError
from hami_cache.forensics import scan_inputs
from hami_cache.forensics.scan_examine import Examiner, Packed, Settings, unpack
from hami_cache.forensics.scan_inputs import Choice, Place, is_url, local
from hami_cache.forensics.scan_row import Row
from hami_cache.spec import registry

FILES, MEMBERS = 64, 32
"""Files, and members of an archive, in one job."""

AHEAD = 4
"""Jobs under way for every process."""

FEW = 4
"""Fewer jobs than this are done before another process would have started."""


@dataclass(frozen=True, slots=True)
class Job:
    """Some files to examine: places, or members of an archive that was unpacked here."""

    places: tuple[Place, ...] = ()
    packed: tuple[Packed, ...] = ()

    def rows(self, examiner: Examiner) -> list[Row]:
        """Its rows, in order."""
        of_places = (row for place in self.places for row in examiner.rows(place))
        return [*of_places, *map(examiner.packed, self.packed)]


def find(inputs: Iterable[str], choice: Choice) -> Iterator[Place]:
    """Every file and archive that paths, patterns and URLs name, in a stable order."""
    for name in map(local, inputs):
        if is_url(name):
            from hami_cache.forensics import scan_remote

            yield from scan_remote.find(name, choice)
        else:
            yield from scan_inputs.find([name], choice)


def scan(
    places: Iterable[Place], settings: Settings, processes: int | None = None
) -> Generator[Row, None, None]:
    """Examine files on this machine.

    Args:
        places: as `find` gives them.
        settings: what to go by.
        processes: how many; None: one for every core this one may use. A program that asks for more
            than one does so below ``if __name__ == "__main__":``, as multiprocessing requires.

    Raises:
        LayoutError: a layout file is wrong.
        HamiCacheError: a process of the scan was killed.
    """
    if processes is None:
        processes = len(os.sched_getaffinity(0))
    registry.layouts(settings.layouts)  # an error in them is told by this process, not by all
    jobs = _jobs(places, settings)
    first = list(islice(jobs, FEW))
    if processes < 2 or len(first) < FEW:
        examiner = Examiner(settings)
        for job in chain(first, jobs):
            yield from job.rows(examiner)
        return
    try:
        yield from _in_processes(chain(first, jobs), settings, processes)
    except BrokenProcessPool:
        raise HamiCacheError(
            "a process of the scan was killed",
            hint="was it out of memory? --jobs 1 scans in one process",
        ) from None


def _jobs(places: Iterable[Place], settings: Settings) -> Iterator[Job]:
    """Files are read where they are examined; archives are unpacked here, one after the other."""
    files: list[Place] = []
    for place in places:
        if place.kind != "archive":
            files.append(place)
        if files and (len(files) == FILES or place.kind == "archive"):
            yield Job(tuple(files))
            files.clear()
        if place.kind == "archive":
            packed = unpack(place.name, settings)
            while some := tuple(islice(packed, MEMBERS)):
                yield Job(packed=some)
    if files:
        yield Job(tuple(files))


def _in_processes(jobs: Iterable[Job], settings: Settings, processes: int) -> Iterator[Row]:
    context = multiprocessing.get_context("forkserver")
    pool = ProcessPoolExecutor(processes, context, _start, (settings,))
    running: deque[Future[list[Row]]] = deque()
    try:
        for job in jobs:
            running.append(pool.submit(_run, job))
            if len(running) >= AHEAD * processes:
                yield from running.popleft().result()
        while running:
            yield from running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


_examiner: Examiner
"""Of a process of the pool."""


def _start(settings: Settings) -> None:
    global _examiner
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the scan ends us when it is interrupted
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    _examiner = Examiner(settings)


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run(job: Job) -> list[Row]:
    return job.rows(_examiner)
