"""The caches of this node's containers: ``$HOOK_PATH/containers/<podUID>_<container>/*.cache``.

Everything below the root belongs to tenants. Directories are opened without following links, each
listing is bounded, only regular files with one name are read, and a pass looks again only at what
may have changed: a node full of rubbish costs each pass about as much as a node full of caches.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hami_cache.node.once import Once
from hami_cache.node.trackedcache import CacheState, CacheWatch, TrackedCache, stamp_of

log = logging.getLogger(__name__)

__all__ = [
    "CacheState",
    "Container",
    "ContainerKey",
    "ContainerTree",
    "Effort",
    "TrackedCache",
]

ROOT_SHAPES = ("containers", "vgpu/containers")
"""Where installations put the container directories below HOOK_PATH."""

MAX_DIRECTORIES = 4096
MAX_ENTRIES = 256
"""Entries of one container directory that are looked at: a tenant can make millions."""

MAX_CACHES = 8
"""Cache files of one container that are opened."""

SETTLING_NS = 100_000_000
"""A directory changed less than this ago is listed again: its time stamp may not tell further
changes."""


@dataclass(frozen=True, slots=True, order=True)
class ContainerKey:
    """What a container directory's name says: the pod's UID and the container's name."""

    pod_uid: str
    container: str


@dataclass(slots=True)
class Container:
    """One container directory and its caches, by file name.

    `problem` is why the directory itself could not be read, "" normally; `crowded` that it holds
    more names than anybody looks at.
    """

    key: ContainerKey
    path: Path
    stamp: tuple[int, ...] = ()
    caches: dict[str, TrackedCache] = field(default_factory=dict)
    problem: str = ""
    crowded: bool = False


@dataclass(frozen=True, slots=True)
class Effort:
    """How much one pass may do.

    Attributes:
        seconds: for opening and identifying files; what is left over waits for the next pass.
        again: seconds after which a readable file is identified anew: a newer libvgpu may have
            joined it.
    """

    seconds: float = 0.25
    again: float = 300.0


DEFAULT_EFFORT = Effort()


class ContainerTree:
    """The container directories below a hook path, kept up to date by `refresh`.

    Args:
        hook_path: HAMi's HOOK_PATH.
        layouts: a folder of layout files searched first.
        effort: bounds of one pass.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        hook_path: Path,
        *,
        layouts: Path | None = None,
        effort: Effort = DEFAULT_EFFORT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hook_path = hook_path
        self._effort = effort
        self._clock = clock
        self._once = Once(log)
        self._watch = CacheWatch(self._once, layouts, effort.again, clock)
        self._containers: dict[ContainerKey, Container] = {}
        self.lock = threading.RLock()
        """Hold it from `refresh` to the last use of what it opened: another pass closes files."""
        self.root: Path | None = None
        self.skipped: dict[str, str] = {}

    @property
    def containers(self) -> Mapping[ContainerKey, Container]:
        """What the last pass found, by pod UID and container name."""
        return self._containers

    def close(self) -> None:
        """Close every file."""
        for container in self._containers.values():
            self._forget(container)
        self._containers.clear()

    def refresh(self, *, complete: bool = False) -> None:
        """Look at the disk once: adopt what is new, forget what is gone.

        Args:
            complete: take as long as it needs, for a single pass.
        """
        deadline = float("inf") if complete else self._clock() + self._effort.seconds
        self.root = self._find_root()
        seen: dict[ContainerKey, Container] = {}
        if self.root is not None:
            try:
                root_fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                self._once.warn("root", "cannot open %s: %s", self.root, error.strerror)
            else:
                with contextlib.closing(_Descriptor(root_fd)):
                    for key, name in self._directories(root_fd):
                        known = self._containers.get(key) or Container(key, self.root / name)
                        if self._visit(known, root_fd, name, deadline):
                            seen[key] = known
        for key, container in self._containers.items():
            if key not in seen:
                self._forget(container)
        self._containers = seen

    def _find_root(self) -> Path | None:
        for shape in ROOT_SHAPES:
            root = self._hook_path / shape
            if root.is_dir():
                if self._once.first(f"found {root}"):
                    log.info("container directories are read from %s", root.absolute())
                self._once.clear("no root")
                return root
        places = " or ".join(str(self._hook_path / shape) for shape in ROOT_SHAPES)
        self._once.warn("no root", "no container directories: neither %s exists", places)
        return None

    def _directories(self, root_fd: int) -> Iterator[tuple[ContainerKey, str]]:
        """The directories whose names fit, at most MAX_DIRECTORIES, in name order."""
        names: list[str] = []
        self.skipped = {}
        with os.scandir(root_fd) as entries:
            for entry in entries:
                problem = _name_problem(entry)
                if problem:
                    if len(self.skipped) < MAX_ENTRIES:
                        self.skipped[entry.name] = problem
                        self._once.warn(
                            f"skip {entry.name!r}", "skipping %r: %s", entry.name, problem
                        )
                    continue
                names.append(entry.name)
                if len(names) >= MAX_DIRECTORIES:
                    self._once.warn(
                        "crowded", "more than %d container directories", MAX_DIRECTORIES
                    )
                    break
        for name in sorted(names):
            uid, _, container = name.partition("_")
            yield ContainerKey(uid, container), name

    def _visit(self, container: Container, root_fd: int, name: str, deadline: float) -> bool:
        """Bring one container up to date; False when its directory is gone."""
        try:
            info = os.stat(name, dir_fd=root_fd, follow_symlinks=False)
        except OSError:
            return False
        if not stat.S_ISDIR(info.st_mode):
            return False
        stamp = (info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns)
        settled = time.time_ns() - max(info.st_ctime_ns, info.st_mtime_ns) > SETTLING_NS
        if (
            stamp == container.stamp
            and settled
            and not container.problem
            and all(map(self._watch.quiet, container.caches.values()))
        ):
            return True
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(name, flags, dir_fd=root_fd)
        except OSError as error:
            self._give_up(container, error)
            return True
        with contextlib.closing(_Descriptor(fd)):
            try:
                self._list(container, fd, deadline)
            except OSError as error:
                self._give_up(container, error)
                return True
        container.stamp = stamp
        return True

    def _give_up(self, container: Container, error: OSError) -> None:
        container.problem = f"cannot look into the directory: {error.strerror}"
        self._once.warn(f"open {container.key}", "%s: %s", container.path, container.problem)
        self._forget(container)

    def _list(self, container: Container, fd: int, deadline: float) -> None:
        container.problem = ""
        found: dict[str, os.stat_result] = {}
        container.crowded = False
        with os.scandir(fd) as entries:
            for count, entry in enumerate(entries):
                if count >= MAX_ENTRIES:
                    container.crowded = True
                    break
                if not entry.name.endswith(".cache"):
                    continue
                with contextlib.suppress(OSError):
                    found[entry.name] = entry.stat(follow_symlinks=False)
        names = sorted(found)
        if len(names) > MAX_CACHES:
            container.crowded = True
        for name in names[:MAX_CACHES]:
            self._watch.look(
                _tracked(container, name, found[name]), container.path, fd, found[name], deadline
            )
        for name in set(container.caches) - set(names[:MAX_CACHES]):
            container.caches.pop(name).close()
        if container.crowded:
            self._once.warn(
                f"crowded {container.key}", "%s holds more than is read", container.path
            )

    @staticmethod
    def _forget(container: Container) -> None:
        for tracked in container.caches.values():
            tracked.close()
        container.caches.clear()


class _Descriptor:
    """A file descriptor as something to close."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def close(self) -> None:
        os.close(self._fd)


def _tracked(container: Container, name: str, info: os.stat_result) -> TrackedCache:
    """What is known of a file; another file under its name is a new one."""
    stamp = stamp_of(info)
    tracked = container.caches.get(name)
    if tracked is None or tracked.inode != stamp[:2]:
        if tracked is not None:
            tracked.close()
        tracked = container.caches[name] = TrackedCache(name, stamp)
    return tracked


def _name_problem(entry: os.DirEntry[str]) -> str:
    """Why an entry of the root is no container directory; "" when it is one."""
    if entry.is_symlink():
        return "a symbolic link"
    if not entry.is_dir(follow_symlinks=False):
        return "not a directory"
    uid, separator, container = entry.name.partition("_")
    if not separator or not uid or not container or entry.name.startswith("."):
        return "the name is not <podUID>_<container>"
    if not entry.name.isprintable():
        return "the name is not printable"
    return ""
