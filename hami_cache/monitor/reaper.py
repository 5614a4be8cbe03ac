"""Garbage collection: the only module that removes directories.

A container's directory goes when its pod is surely gone, it is old, and nothing in it shows a sign
of life (`orphans.py`). Every doubt keeps it. Removal works on open descriptors, so that it follows
no link and leaves neither the directory nor its file system.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hami_cache.errors import SourceError
from hami_cache.monitor.orphans import DIRECTORY_FLAGS, Orphan, distrust, stamp_of
from hami_cache.monitor.rulings import Judge, Ruling, error_text
from hami_cache.node.containers import ContainerKey, ContainerTree
from hami_cache.node.once import Once
from hami_cache.node.pods import PodSource

log = logging.getLogger(__name__)

GONE = "its pod is gone, and nothing shows life"

BUDGET_S = 0.5
"""How long one run may remove: a tenant can leave millions of files. The next run goes on."""


class Reaper:
    """Removes the directories of pods that are gone.

    Args:
        tree: the container directories.
        pods: says which pods there are.
        resync: seconds for which the directory of an unknown pod survives its last change.
        enabled: False removes nothing and looks at nothing.
        dry_run: say what would be removed.
        orphaned: told, each run, the containers that are old and have no pod, so that we are not
            the ones who keep their files open. Called with the tree's lock held.
        clock: seconds since the epoch.

    Attributes:
        rulings: of the last run.
        removed: directories removed so far.
        refused: refusals so far, counted each run.
        failed: failed removals so far, counted each run.
    """

    def __init__(
        self,
        tree: ContainerTree,
        pods: PodSource,
        resync: float,
        *,
        enabled: bool = True,
        dry_run: bool = False,
        orphaned: Callable[[Iterable[ContainerKey]], object] = lambda containers: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tree = tree
        self._pods = pods
        self._judge = Judge(tree, resync, orphaned)
        self._enabled = enabled
        self._dry_run = dry_run
        self._clock = clock
        self._once = Once(log)
        self.rulings: list[Ruling] = []
        self.removed = 0
        self.refused = 0
        self.failed = 0

    def run(self) -> list[Ruling]:
        """Look at the disk and at the pods, remove what has to go. Never raises for an entry."""
        if not self._enabled:
            return []
        with self._tree.lock:
            self._tree.refresh()
            root = self._tree.root
            rulings, due = self._judge.rule(self._pods.view(), self._clock())
        if root is not None:
            rulings += self._remove_all(root, due)
        for ruling in rulings:
            self._report(ruling)
        if not any(ruling.action == "refused" for ruling in rulings):
            self._once.clear("refused")
        self.rulings = rulings
        return rulings

    def _remove_all(self, root: Path, due: list[Orphan]) -> Iterator[Ruling]:
        if self._dry_run:
            for orphan in due:
                yield Ruling(orphan.name, "would_remove", GONE)
            return
        deadline = time.monotonic() + BUDGET_S
        for orphan in due:
            view = self._pods.view()
            if doubt := distrust(view):
                yield Ruling(orphan.name, "refused", doubt)
            elif orphan.key.pod_uid in view.pods:
                yield Ruling(orphan.name, "kept", "its pod is known")
            else:
                yield self._remove(root, orphan, deadline)

    def _remove(self, root: Path, orphan: Orphan, deadline: float) -> Ruling:
        identity = (orphan.name, orphan.stamp[:2])
        try:
            remove_directory(root, orphan.name, orphan.stamp, deadline)
        except OutOfTimeError:
            self._judge.begun.add(identity)
            return Ruling(orphan.name, "unfinished", "too much for one run")
        except (OSError, SourceError) as error:
            return Ruling(orphan.name, "failed", error_text(error))
        self._judge.begun.discard(identity)
        return Ruling(orphan.name, "removed", GONE)

    def _report(self, ruling: Ruling) -> None:
        """Count and log: a removal always, anything else when it is news."""
        name, action, reason = ruling.name, ruling.action, ruling.reason
        if action == "removed":
            self.removed += 1
            log.info("removed %s: %s", name, reason)
        elif action == "would_remove":
            if self._once.first(name):
                log.info("would remove %s: %s", name, reason)
        elif action == "failed":
            self.failed += 1
            self._once.warn(name, "cannot remove %s: %s", name, reason)
        elif action == "refused":
            self.refused += 1
            self._once.warn("refused", "removing nothing of unknown pods: %s", reason)


class OutOfTimeError(Exception):
    """The time of this run is over."""


def remove_directory(root: Path, name: str, stamp: tuple[int, ...], deadline: float) -> None:
    """Remove a directory below `root` with everything in it, as long as it is still the same.

    Links in it are removed, not followed; nothing outside is touched; its depth does not matter.

    Args:
        root: the containers directory.
        name: of the directory in it.
        stamp: its (device, inode, mtime, ctime).
        deadline: monotonic seconds.

    Raises:
        OutOfTimeError: the deadline has passed; what is left is smaller.
        SourceError: it is another directory by now, or something is mounted in it.
        OSError: something cannot be removed.
    """
    parent = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fd = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
        try:
            if stamp_of(os.fstat(fd)) != stamp:
                raise SourceError("the directory has just changed")
            if os.fstat(parent).st_dev != stamp[0]:
                raise SourceError("another file system is mounted on it")
            while _thin_out(fd, stamp[0], deadline):
                pass
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=parent)
    finally:
        os.close(parent)


def _thin_out(directory: int, device: int, deadline: float) -> bool:
    """Remove each entry of an open directory once; False when there was none."""
    found = False
    with os.scandir(directory) as entries:
        for entry in entries:
            found = True
            _remove_entry(directory, entry, device, deadline)
    return found


def _remove_entry(directory: int, entry: os.DirEntry[str], device: int, deadline: float) -> None:
    """Remove one entry; what lies in a directory in it comes up to `directory` for a later round.

    That way two descriptors are enough for any depth.
    """
    if time.monotonic() > deadline:
        raise OutOfTimeError
    if not entry.is_dir(follow_symlinks=False):
        os.unlink(entry.name, dir_fd=directory)
        return
    inner = os.open(entry.name, DIRECTORY_FLAGS, dir_fd=directory)
    try:
        if os.fstat(inner).st_dev != device:
            raise SourceError("another file system is mounted in it")
        with os.scandir(inner) as entries:
            for below in entries:
                if time.monotonic() > deadline:
                    raise OutOfTimeError
                if below.is_dir(follow_symlinks=False):
                    up = secrets.token_hex(16)
                    os.rename(below.name, up, src_dir_fd=inner, dst_dir_fd=directory)
                else:
                    os.unlink(below.name, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(entry.name, dir_fd=directory)
