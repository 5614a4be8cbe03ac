"""What the feedback loop reads of a cache: a few words of a live file, every pass anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hami_cache.errors import NotInitialisedError, SourceError, UnknownLayoutError
from hami_cache.monitor.contention import Task
from hami_cache.read import seqlock
from hami_cache.read.cache import Cache
from hami_cache.spec.identify import TIE, Identification
from hami_cache.spec.layout import Layout
from hami_cache.spec.table import offset_table


class Place(NamedTuple):
    """Where a layout has what the loop reads and writes; offsets from the file's start."""

    magic: int
    uuids: int
    uuid_size: int
    uuid_count: int
    priority: int
    recent_kernel: int
    utilization_switch: int


def place_of(layout: Layout) -> Place | None:
    """A layout's `Place`; None where it lacks one of the numbers."""
    table, uuids = offset_table(layout), layout.element("uuids")
    numbers = (table.priority, table.recent_kernel, table.utilization_switch)
    if uuids is None or min(numbers) < 0:
        return None
    return Place(table.magic_offset, uuids.offset, uuids.ctype.size, uuids.count, *numbers)


def agreed_place(found: Identification, used: Layout, layouts: Mapping[str, Layout]) -> Place:
    """Where to read and write a cache, if everything that its content may be agrees on that.

    A file that two libvgpu versions wrote, or that may be one of two layouts, takes part only if
    both have the numbers at the same places: a store at a wrong one would hit a process slot.

    Raises:
        UnknownLayoutError: they disagree, or the layout lacks one of the numbers.
    """
    place = place_of(used)
    if place is None:
        raise UnknownLayoutError(f"{used.name} has no numbers for the feedback loop")
    for name in (*found.parties, *_rivals(found)):
        if name in layouts and place_of(layouts[name]) != place:
            raise UnknownLayoutError(
                f"{found.detail}: {used.name} and {name} have its numbers at different places"
            )
    return place


def _rivals(found: Identification) -> list[str]:
    """The layouts that an ambiguous file may have as well."""
    if found.verdict != "ambiguous":
        return []
    best = found.candidates[0].score
    # Scores are rounded to two digits: a rival at the very edge counts.
    return [c.layout for c in found.candidates if best - c.score <= TIE]


class TaskReader:
    """Reads one cache's state, pass after pass, and remembers what seldom changes.

    Args:
        name: whose cache it is, for people.
        cache: open; it must stay open as long as this is used.
        layouts: those it was identified with.

    Raises:
        UnknownLayoutError: it is not certain where its numbers are.
    """

    def __init__(self, name: str, cache: Cache, layouts: Mapping[str, Layout]) -> None:
        self.place = agreed_place(cache.identification, cache.layout, layouts)
        self._name = name
        self._magic = cache.layout.identity.magic
        self._mapping = cache.target().mapping
        place = self.place
        self._uuids = (place.uuids, place.uuid_size * place.uuid_count)
        self._words = seqlock.Places(
            place.magic, place.priority, place.recent_kernel, place.utilization_switch
        )
        self._raw = b""
        self._cards: tuple[bytes, ...] = ()

    def read(self) -> Task:
        """The state now.

        Raises:
            SourceError: the file is gone or was cut.
            NotInitialisedError: its magic number is 0 again, or something else.
        """
        raw = self._mapping.read_bytes(*self._uuids)
        words = self._mapping.load_words(self._words)
        if raw is None or words is None:
            raise SourceError("the file is gone or was cut")
        magic, priority, recent_kernel, switch = words
        if magic != self._magic:
            raise NotInitialisedError("the magic number is gone")
        if raw != self._raw:
            self._raw, self._cards = raw, _cards(raw, self.place.uuid_size)
        return Task(self._name, priority, recent_kernel, switch, self._cards)


def _cards(raw: bytes, size: int) -> tuple[bytes, ...]:
    """The fields that name a card: their first byte is not NUL."""
    fields = (raw[start : start + size] for start in range(0, len(raw), size))
    return tuple(field for field in fields if field[0])
