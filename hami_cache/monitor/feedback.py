"""The feedback loop: the only module that writes into caches.

It stores two aligned 32-bit numbers, `recent_kernel` and `utilization_switch`, through a mapping of
its own that is opened when one of them first has to change. What is decided, and why, is in
`contention.py`; which caches take part is in docs/feedback.md.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from hami_cache.errors import HamiCacheError, SourceError, one_line
from hami_cache.monitor.contention import Outcome, Task, decide, explain
from hami_cache.monitor.tasks import TaskReader
from hami_cache.node.containers import ContainerKey, ContainerTree, TrackedCache
from hami_cache.node.once import Once
from hami_cache.read import seqlock
from hami_cache.read.cache import Cache
from hami_cache.read.source import open_regular
from hami_cache.spec import registry

log = logging.getLogger(__name__)


class Decision(NamedTuple):
    """What a pass made of one cache of one container.

    Attributes:
        container: whose it is.
        cache: the file's name; "" for a container without any.
        task: the state that the pass found; None where the cache takes no part.
        outcome: the state that the pass wants; None where the cache takes no part.
        written: something was stored.
        error: why it takes no part, or could not be written; "" normally.
    """

    container: ContainerKey
    cache: str
    task: Task | None = None
    outcome: Outcome | None = None
    written: bool = False
    error: str = ""

    @property
    def priority(self) -> int | None:
        """The priority as it lies in the file; 0 is the most urgent."""
        return self.task.priority if self.task else None

    @property
    def recent_kernel_before(self) -> int | None:
        """`recent_kernel` as the pass found it."""
        return self.task.recent_kernel if self.task else None

    @property
    def recent_kernel_after(self) -> int | None:
        """`recent_kernel` as the pass wants it."""
        return self.outcome.recent_kernel if self.outcome else None

    @property
    def switch_before(self) -> int | None:
        """`utilization_switch` as the pass found it."""
        return self.task.switch if self.task else None

    @property
    def switch_after(self) -> int | None:
        """`utilization_switch` as the pass wants it."""
        return self.outcome.switch if self.outcome else None

    @property
    def blocked(self) -> bool:
        """A more urgent task runs on one of its cards: its launches have to wait."""
        return self.outcome is not None and self.outcome.rival is not None

    @property
    def changes(self) -> bool:
        """The pass wants another state than it found."""
        if self.task is None or self.outcome is None:
            return False
        recent_kernel, switch, *_ = self.outcome
        return self.task.recent_kernel != recent_kernel or self.task.switch != switch

    @property
    def reason(self) -> str:
        """Why, in one line."""
        if self.task is None or self.outcome is None:
            return f"takes no part: {self.error}"
        return explain(self.task, self.outcome)


class Feedback:
    """Upstream's feedback loop over the caches of a node.

    Every readable cache is a task of its own, whichever container it lies in: the processes that
    have it mapped obey its numbers and no other's.

    Args:
        tree: the containers.
        read_only: decide, and open nothing for writing.
        layouts: the folder of layout files that `tree` was given.

    Attributes:
        decisions: of the last pass, all caches and containers, changed or not.
        writes: caches written so far, counted each pass.
        failures: caches that had to be written and could not be, counted each pass.
    """

    def __init__(
        self, tree: ContainerTree, *, read_only: bool = False, layouts: Path | None = None
    ) -> None:
        self._tree = tree
        self._read_only = read_only
        self._layouts = layouts
        self._once = Once(log)
        self._members: dict[tuple[ContainerKey, str], _Member] = {}
        self._left_out: frozenset[ContainerKey] = frozenset()
        self.decisions: list[Decision] = []
        self.writes = 0
        self.failures = 0

    def run(self) -> list[Decision]:
        """Look at the disk and make one pass. Takes the tree's lock; never raises for a cache."""
        with self._tree.lock:
            self._tree.refresh()
            return self.step()

    def step(self) -> list[Decision]:
        """One pass over the tree as it is. The caller holds the tree's lock."""
        found = [*self._states()]
        outcomes = iter(decide([d.task for d in found if d.task is not None]))
        self.decisions = [d if d.task is None else self._settle(d, next(outcomes)) for d in found]
        return self.decisions

    def leave_out(self, containers: Iterable[ContainerKey]) -> None:
        """Let just these take no part from now on, and let go of their files.

        They are the ones whose pods are gone: nobody waits for their numbers, and every store would
        make a dead file look alive.
        """
        self._left_out = frozenset(containers)
        self._members = {n: m for n, m in self._members.items() if n[0] not in self._left_out}

    def close(self) -> None:
        """Let go of every file."""
        self._members.clear()

    def _states(self) -> Iterator[Decision]:
        """Every container and cache, with its state where it takes part."""
        known, self._members = self._members, {}
        for key, container in self._tree.containers.items():
            if key in self._left_out:
                yield Decision(key, "", error="its pod is gone")
                continue
            if not container.caches:
                yield Decision(key, "", error=container.problem or "no cache file yet")
            for name, tracked in container.caches.items():
                try:
                    member = self._member(key, tracked, known.get((key, name)))
                    self._members[key, name] = member
                    yield Decision(key, name, member.reader.read())
                except HamiCacheError as error:
                    yield Decision(key, name, error=error.message)

    def _member(self, key: ContainerKey, tracked: TrackedCache, known: _Member | None) -> _Member:
        if tracked.cache is None:
            raise SourceError(f"{tracked.state}: {tracked.detail}".removesuffix(": "))
        if known is not None and known.cache is tracked.cache:
            return known
        return _Member(key, tracked.cache, self._layouts)

    def _settle(self, found: Decision, outcome: Outcome) -> Decision:
        """Store what changes."""
        decided = Decision(found.container, found.cache, found.task, outcome)
        if self._read_only or not decided.changes:
            return decided
        member = self._members[found.container, found.cache]
        topic = str(member.cache.path)
        try:
            member.write(decided)
        except HamiCacheError as error:
            self.failures += 1
            self._once.warn(topic, "%s: cannot write: %s", one_line(topic), error.message)
            return decided._replace(error=error.message)
        self.writes += 1
        self._once.clear(topic)
        return decided._replace(written=True)


class _Member:
    """One cache in the loop, from pass to pass."""

    def __init__(self, key: ContainerKey, cache: Cache, layouts: Path | None) -> None:
        name = f"{key.pod_uid}_{key.container}"
        self.reader = TaskReader(name, cache, registry.layouts(layouts))
        self.cache = cache
        self._writable: seqlock.Mapping | None = None

    def write(self, decided: Decision) -> None:
        """Store the two numbers, as far as they change.

        Raises:
            SourceError: the file cannot be opened for writing, is another one by now, or is gone.
        """
        if self._writable is None:
            self._writable = _map_for_writing(self.cache)
        place = self.reader.place
        for offset, before, after in (
            (place.recent_kernel, decided.recent_kernel_before, decided.recent_kernel_after),
            (place.utilization_switch, decided.switch_before, decided.switch_after),
        ):
            if after is not None and before != after and not self._writable.store32(offset, after):
                raise SourceError("the file is gone or was cut")


def _map_for_writing(cache: Cache) -> seqlock.Mapping:
    """Map the very file that a cache was opened from, whatever its name leads to by now."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        directory = os.open(cache.path.parent, flags)
    except OSError as error:
        raise SourceError(f"cannot open the directory: {error.strerror}") from None
    try:
        file = open_regular(cache.path.name, dir_fd=directory, writable=True)
    finally:
        os.close(directory)
    try:
        if file.identity != cache.identity or file.links != 1:
            raise SourceError("was replaced or linked while it was opened")
        return seqlock.Mapping(file.fd, cache.layout.sizeof, writable=True)
    finally:
        os.close(file.fd)
