"""Directories whose pod is not known, and every sign that somebody still lives in them.

Nothing here removes anything. What a directory shows is gathered by `examine`; whether it may go is
decided by pure functions over that.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hami_cache.errors import SourceError
from hami_cache.node.containers import Container, ContainerKey, TrackedCache
from hami_cache.node.pods import PodView
from hami_cache.read import seqlock
from hami_cache.read.cache import read_figures

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_BRIEFLY = seqlock.Bounds(slot_ns=10_000, call_ns=100_000)
"""How long a table is waited for: what is asked of it does not depend on slots at rest."""

_NO_REGULAR_FILE = (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENODEV)


@dataclass(frozen=True, slots=True)
class Trace:
    """What one cache file says about life. Times are seconds since the epoch.

    Attributes:
        name: the file's.
        touched: when the file was last modified.
        in_use: a process has it open for writing, as every libvgpu has; None where the kernel does
            not say.
        launched: its `last_kernel_time`; 0 where that is unknown.
        processes: running or suspended processes are registered in it, alive or not.
    """

    name: str
    touched: float
    in_use: bool | None
    launched: float = 0.0
    processes: bool = False


@dataclass(frozen=True, slots=True)
class Orphan:
    """The directory of a container whose pod is not known, with the traces of its caches.

    `stamp` is its (device, inode, mtime, ctime), as in `Container`.
    """

    key: ContainerKey
    name: str
    stamp: tuple[int, ...]
    traces: tuple[Trace, ...]

    @property
    def looks_alive(self) -> bool:
        """Processes are registered: they were killed, or they live."""
        return any(trace.processes for trace in self.traces)

    @property
    def untold(self) -> bool:
        """The kernel does not say whether the registered processes still have their cache."""
        return any(trace.processes and trace.in_use is None for trace in self.traces)


def distrust(view: PodView) -> str:
    """Why a pod that is missing in a view may exist all the same; "" when it is surely gone."""
    if not view.known:
        return "there has been no complete list of pods yet"
    if not view.authoritative:
        return "the source of pods cannot be sure which ones are gone"
    if not view.pods:
        return "the list of pods is empty"
    if not view.fresh:
        return "the list of pods is not current"
    return ""


def young(container: Container, now: float, resync: float) -> str:
    """Why it is too early for a directory without a pod; "" when it is not."""
    age = now - _changed(*container.stamp[2:])
    return "" if age > resync else f"changed {max(age, 0):.0f} s ago, not yet {resync:.0f}"


def alive(orphan: Orphan, now: float, resync: float) -> str:
    """Which sign of life an orphan shows; "" for none. A time in the future is nobody's sign."""
    for trace in orphan.traces:
        if trace.in_use:
            return f"a process has {trace.name} open"
        if now - trace.touched <= resync:
            return f"{trace.name} was written {max(now - trace.touched, 0):.0f} s ago"
        if 0 <= now - trace.launched <= resync:
            return f"{trace.name} says a kernel ran {now - trace.launched:.0f} s ago"
    return ""


def suspicious(due: Sequence[Orphan], total: int) -> bool:
    """Whether removing these looks like a mistake about the pods rather than like cleaning up.

    Most of the directories would go, and not all of them were left by processes that ended in good
    order.
    """
    return len(due) * 2 > total and any(orphan.looks_alive for orphan in due)


def examine(container: Container) -> Orphan:
    """Look into a directory. The caller holds the tree's lock.

    Raises:
        OSError: it cannot be opened.
        SourceError: it is not what the tree saw.
    """
    fd = os.open(container.path, DIRECTORY_FLAGS)
    try:
        if stamp_of(os.fstat(fd)) != container.stamp:
            raise SourceError("the directory has just changed")
        traces = [_trace(tracked, fd) for tracked in container.caches.values()]
    finally:
        os.close(fd)
    found = tuple(trace for trace in traces if trace is not None)
    return Orphan(container.key, container.path.name, container.stamp, found)


def stamp_of(info: os.stat_result) -> tuple[int, ...]:
    """What tells a directory from itself after a change, as in `Container.stamp`."""
    return (info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns)


def _trace(tracked: TrackedCache, directory: int) -> Trace | None:
    """What a cache file says; None for an entry that is gone or no regular file.

    Raises:
        OSError: it cannot be opened.
    """
    try:
        fd = os.open(tracked.name, _FILE_FLAGS, dir_fd=directory)
    except OSError as error:
        if error.errno in _NO_REGULAR_FILE:
            return None
        raise
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return None
        in_use = _open_for_writing(fd)
    finally:
        os.close(fd)
    trace = Trace(tracked.name, _changed(info.st_mtime_ns, info.st_ctime_ns), in_use)
    if tracked.cache is None or tracked.cache.identity != (info.st_dev, info.st_ino):
        return trace
    report = read_figures([tracked.cache], devices=1, bounds=_BRIEFLY).reports[0]
    if report["status"] != seqlock.STATUS_READ:
        return trace
    return replace(
        trace,
        launched=float(report["last_kernel_time"]),
        processes=bool(report["running"] or report["suspended"]),
    )


def _changed(mtime_ns: int, ctime_ns: int) -> float:
    """When something changed. Its owner may have set the mtime into the future, not the ctime."""
    return min(mtime_ns, ctime_ns) / 1e9


def _open_for_writing(fd: int) -> bool | None:
    """Whether any process has a file open, or mapped, for writing; None where nobody says.

    The kernel grants a read lease only on a file that no process of any namespace has open for
    writing. It is given back at once; the signal that would ask us for it is one that nobody minds.
    It takes the file's owner or CAP_LEASE, and a file system that knows leases.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False
