"""One cache file of a container, from the first look to its end: opened, identified, watched."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hami_cache.errors import HamiCacheError, NotInitialisedError, SourceError, UnknownLayoutError
from hami_cache.node.once import Once
from hami_cache.read.cache import Cache
from hami_cache.read.source import open_regular

CacheState = Literal[
    "ready", "not_initialised", "unknown_layout", "unreadable", "irregular", "pending"
]
"""``irregular``: not a regular file with one name. ``pending``: not looked at yet, the pass was
full."""


Stamp = tuple[int, ...]
"""Device, inode, size, mtime and ctime of a file."""


def stamp_of(info: os.stat_result) -> Stamp:
    """A file's stamp."""
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


@dataclass(slots=True)
class TrackedCache:
    """One cache file as last seen.

    `cache` is open exactly in state ``ready``; `detail` says why it is not. `stamp` is (device,
    inode, size, mtime, ctime).
    """

    name: str
    stamp: Stamp
    state: CacheState = "pending"
    detail: str = ""
    cache: Cache | None = None
    looked: float = 0.0

    @property
    def inode(self) -> tuple[int, ...]:
        """Device and inode."""
        return self.stamp[:2]

    @property
    def mtime_ns(self) -> int:
        """When the file was last modified, as far as the file system knows."""
        return self.stamp[3]

    def close(self) -> None:
        """Forget the open file."""
        if self.cache is not None:
            self.cache.close()
            self.cache = None


class CacheWatch:
    """Keeps tracked caches up to date.

    Args:
        once: tells of files that cannot be used, once a cause.
        layouts: a folder of layout files searched first.
        again: seconds after which a file is identified anew: a newer libvgpu may have joined it.
        clock: monotonic seconds.
    """

    def __init__(
        self, once: Once, layouts: Path | None, again: float, clock: Callable[[], float]
    ) -> None:
        self._once = once
        self._layouts = layouts
        self._again = again
        self._clock = clock

    def quiet(self, tracked: TrackedCache) -> bool:
        """Nothing about the file needs another look now, whatever its directory says."""
        return (
            tracked.state == "ready"
            and tracked.cache is not None
            and tracked.cache.unchanged()
            and self._clock() - tracked.looked < self._again
        )

    def look(
        self, tracked: TrackedCache, folder: Path, fd: int, info: os.stat_result, deadline: float
    ) -> None:
        """Bring one file up to date.

        Args:
            tracked: what is known of it.
            folder: its directory's path, for messages.
            fd: its directory, open.
            info: of the directory entry, links not followed.
            deadline: on the clock; later than that nothing is opened any more.
        """
        stamp = stamp_of(info)
        if not self._due(tracked, stamp):
            tracked.stamp = stamp
            return
        problem = _irregular(info)
        if problem:
            tracked.close()
            self._settle(tracked, folder, stamp, "irregular", problem)
        elif self._clock() < deadline:
            self._open(tracked, folder, fd, stamp)

    def _due(self, tracked: TrackedCache, stamp: Stamp) -> bool:
        """Whether a file must be opened and identified (again)."""
        if tracked.state in ("pending", "not_initialised") or stamp[2] != tracked.stamp[2]:
            return True
        if tracked.state == "ready":
            return not self.quiet(tracked)
        return stamp != tracked.stamp or self._clock() - tracked.looked >= self._again

    def _open(self, tracked: TrackedCache, folder: Path, fd: int, stamp: Stamp) -> None:
        path = folder / tracked.name
        before = tracked.cache
        try:
            file = open_regular(tracked.name, dir_fd=fd)
            if file.links != 1 or file.identity != stamp[:2]:
                os.close(file.fd)
                raise SourceError("was replaced or linked while it was opened", path=path)
            opened = Cache(path, file, layouts=self._layouts)
        except HamiCacheError as error:
            tracked.close()
            self._settle(tracked, folder, stamp, _state_of(error), error.message)
            return
        if before is not None and opened.identification == before.identification:
            opened.close()
            opened = before
        else:
            tracked.close()
        tracked.cache = opened
        self._settle(tracked, folder, stamp, "ready", opened.identification.detail)

    def _settle(
        self, tracked: TrackedCache, folder: Path, stamp: Stamp, state: CacheState, detail: str
    ) -> None:
        tracked.state, tracked.detail, tracked.stamp = state, detail, stamp
        tracked.looked = self._clock()
        topic = f"cache {folder / tracked.name}"
        if state in ("ready", "not_initialised"):
            self._once.clear(topic)
        else:
            self._once.warn(topic, "%s: %s: %s", folder / tracked.name, state, detail)


def _state_of(error: HamiCacheError) -> CacheState:
    if isinstance(error, NotInitialisedError):
        return "not_initialised"
    return "unknown_layout" if isinstance(error, UnknownLayoutError) else "unreadable"


def _irregular(info: os.stat_result) -> str:
    """Why a file must not be opened; "" when it may."""
    if not stat.S_ISREG(info.st_mode):
        return "not a regular file"
    if info.st_nlink != 1:
        return f"the file has {info.st_nlink} names: it may be another container's"
    return ""
