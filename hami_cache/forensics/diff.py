"""What changed between two regions, by field path, even across layouts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from hami_cache.errors import FieldError
from hami_cache.forensics import values
from hami_cache.forensics.image import Column, Image, columns
from hami_cache.forensics.values import Value
from hami_cache.spec.layout import Layout

Index = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs.

    Attributes:
        where: its path by logical names, the same in both layouts.
        before, after: None where that side's layout has no such field.
    """

    where: str
    before: Value | None
    after: Value | None

    @property
    def delta(self) -> int | None:
        """How much a number grew."""
        if isinstance(self.before, int) and isinstance(self.after, int):
            return self.after - self.before
        return None


def compare(before: Image, after: Image) -> list[Change]:
    """Every field that differs, in the order of the file.

    A field that one layout lacks is a change where the other has anything but zero in it. Padding
    is compared only within one layout: across layouts, it is not the same bytes.
    """
    old, new = columns(before.layout, before.data), columns(after.layout, after.data)
    across = before.layout is not after.layout
    found: list[Change] = []
    for name in dict.fromkeys([*old, *new]):
        left, right = old.get(name), new.get(name)
        if not (across and any(c is not None and c.field.padding for c in (left, right))):
            found += _changes(left, right)
    return sorted(found, key=lambda change: _place(change.where, before.layout, after.layout))


def _place(where: str, *layouts: Layout) -> int:
    """A field's offset in the first layout that has it."""
    for layout in layouts:
        with suppress(FieldError):
            return layout.field(where).offset
    raise AssertionError("a change lies in one of the two layouts")


def document(before: Image, after: Image) -> dict[str, Any]:
    """The JSON of `diff`, documented in docs/forensics.md."""
    return {
        "a": _side(before),
        "b": _side(after),
        "changes": [
            {
                "where": change.where,
                "before": None if change.before is None else values.plain(change.before),
                "after": None if change.after is None else values.plain(change.after),
            }
            for change in compare(before, after)
        ],
    }


def _side(image: Image) -> dict[str, Any]:
    return {
        "file": image.file,
        "size": image.size,
        "layout": image.layout.name,
        "verdict": image.found.verdict,
    }


def _changes(left: Column | None, right: Column | None) -> Iterator[Change]:
    named = left or right
    assert named is not None  # the name comes from one of them
    if left is not None and right is not None:
        if _same(left, right):
            return
        if len(left.shape) != len(right.shape):  # an array here, a single field there
            yield from _changes(left, None)
            yield from _changes(None, right)
            return
    for index in _indices(left, right):
        old, new = _value(left, index), _value(right, index)
        if old == new and left is not None and right is not None and not left.number:
            # The same text, perhaps followed by other leftovers.
            old, new = (c.raw(index).rstrip(b"\0").hex() for c in (left, right))
        if old != new:
            yield Change(named.where(index), old, new)


def _same(left: Column, right: Column) -> bool:
    return left.kind == right.kind and np.array_equal(left.values, right.values)


def _indices(left: Column | None, right: Column | None) -> list[Index]:
    """The places where either side has something."""
    used = (np.argwhere(c.used()).tolist() for c in (left, right) if c is not None)
    return sorted({tuple(index) for indices in used for index in indices})


def _value(column: Column | None, index: Index) -> Value | None:
    raw = b"" if column is None else column.raw(index)
    return values.read(raw, column.field.ctype, 0) if column is not None and raw else None
