"""The uuids of a cache's devices as labels: tenant text that must neither mislead nor flood."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hami_cache.absent import Absent
from hami_cache.node.containers import TrackedCache
from hami_cache.read.uuidtext import uuid_text

MAX_CHANGES = 8
"""How many different uuids a device of one file may show in its life: a new one in every scrape
would fill a metrics database with dead series."""


@dataclass(slots=True)
class _Known:
    """What one cache's uuid array said last, whichever file has the name now."""

    raw: bytes = b""
    texts: tuple[str | Absent, ...] = ()
    seen: dict[int, set[str]] = field(default_factory=dict)


class UuidReader:
    """Reads and remembers uuids by path, and notices a cache whose uuids keep changing."""

    def __init__(self) -> None:
        self._known: dict[Path, _Known] = {}

    def keep(self, tracked: Iterable[TrackedCache]) -> None:
        """Forget every file but these."""
        paths = {t.cache.path for t in tracked if t.cache is not None}
        self._known = {path: known for path, known in self._known.items() if path in paths}

    def read(self, tracked: TrackedCache, number: int) -> tuple[str | Absent, ...]:
        """The uuids of the first `number` devices, absent where there is no usable text."""
        assert tracked.cache is not None
        mapping = tracked.cache.target().mapping
        place = tracked.cache.layout.element("uuids")
        assert place is not None  # every layout file is checked for it
        raw = mapping.read_bytes(place.offset, place.ctype.size * number)
        if raw is None:
            return tuple(Absent("gone", "the file is gone") for _ in range(number))
        known = self._known.setdefault(tracked.cache.path, _Known())
        if raw != known.raw:
            size = place.ctype.size
            known.texts = tuple(
                self._admit(known, index, uuid_text(raw[index * size : (index + 1) * size], index))
                for index in range(number)
            )
            known.raw = raw
        return known.texts

    @staticmethod
    def _admit(known: _Known, index: int, text: str | Absent) -> str | Absent:
        if isinstance(text, Absent):
            return text
        seen = known.seen.setdefault(index, set())
        if text not in seen and len(seen) >= MAX_CHANGES:
            return Absent("uuid_unreadable", f"uuids[{index}] keeps changing")
        seen.add(text)
        return text
