"""Two shapes held against each other, field by field.

Fields are matched by name (in a mirror: whatever its style), then by logical name, then by their
place between fields that match. Padding may come and go without harm; everything else that a reader
could get wrong is a breaking change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from hami_cache.spec.layout import Field, Struct
from hami_cache.toolkit.shape import Shape, gaps, plain

Kind = Literal["added", "removed", "moved", "resized", "retyped", "renamed"]
Pair = tuple[Field | None, Field | None]


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one field.

    Attributes:
        path: dotted, without indices (``procs.seqlock``), by the name before.
        struct: the struct that holds the field.
        before: None for an added field.
        after: None for a removed one.
        kinds: everything that differs.
        breaks: a reader of the one gets the other wrong.
        detail: in words, offsets from the start of the struct.
    """

    path: str
    struct: str
    before: Field | None
    after: Field | None
    kinds: tuple[Kind, ...]
    breaks: bool
    detail: str


@dataclass(frozen=True, slots=True)
class StructPair:
    """Two structs at the same path and their fields in pairs; None where one lacks it."""

    path: str
    before: Struct | None
    after: Struct | None
    fields: tuple[Pair, ...]


@dataclass(frozen=True, eq=False)
class Comparison:
    """The difference between two shapes.

    Attributes:
        structs: every pair of structs, the region first.
        changes: what differs, harmless changes too.
        notes: what is right only by luck.
    """

    before: Shape
    after: Shape
    structs: tuple[StructPair, ...]
    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    @property
    def breaking(self) -> tuple[Change, ...]:
        """The changes that a reader gets wrong."""
        return tuple(change for change in self.changes if change.breaks)

    @property
    def equal(self) -> bool:
        """Whether every field lies where the other shape has it."""
        return not self.breaking and self.before.region.sizeof == self.after.region.sizeof

    @property
    def indistinguishable(self) -> bool:
        """Different, and neither size nor version tells a reader so."""
        return (
            not self.equal
            and self.before.region.sizeof == self.after.region.sizeof
            and self.before.version == self.after.version
        )


def compare(before: Shape, after: Shape) -> Comparison:
    """Compare two shapes, `before` being the one that readers know."""
    structs = tuple(_pairs(before, after))
    changes: list[Change] = []
    notes: list[str] = []
    for pair in structs:
        # A struct that only one shape has is told by the field that holds it.
        if pair.before is None or pair.after is None:
            continue
        found = [_change(pair, fields, after.mirror) for fields in pair.fields]
        changes += [change for change in found if change is not None]
        notes += _luck(pair)
    return Comparison(before, after, structs, tuple(changes), tuple(notes))


def match(before: Struct, after: Struct) -> tuple[Pair, ...]:
    """The fields of two structs in pairs, in order of place."""
    matching = _Matching(list(before.fields), list(after.fields))
    matching.where(lambda a, b: a.name == b.name)
    matching.where(lambda a, b: plain(a.name) == plain(b.name))
    matching.where(lambda a, b: plain(a.logical) == plain(b.logical))
    matching.where(lambda a, b: a.offset == b.offset and a.size == b.size)
    matching.where(matching.between_matches)
    lone: list[Pair] = [(a, None) for a in matching.left]
    lone += [(None, b) for b in matching.right]
    return tuple(sorted([*matching.pairs, *lone], key=_place))


class _Matching:
    """Fields without a partner yet, and the pairs so far."""

    def __init__(self, before: list[Field], after: list[Field]) -> None:
        self._before, self._after = before, after
        self.left, self.right = list(before), list(after)
        self.pairs: list[Pair] = []

    def where(self, same: Callable[[Field, Field], bool]) -> None:
        """Pair the fields that are the same by a test; padding only with padding."""
        for a in list(self.left):
            for b in self.right:
                if a.padding == b.padding and same(a, b):
                    self.pairs.append((a, b))
                    self.left.remove(a)
                    self.right.remove(b)
                    break

    def between_matches(self, a: Field, b: Field) -> bool:
        """Whether both neighbours match too: then a field of the same size only has a new name."""
        i, j = self._before.index(a), self._after.index(b)
        if a.size != b.size or not (0 < i < len(self._before) - 1 and 0 < j < len(self._after) - 1):
            return False
        neighbours = ((self._before[i + step], self._after[j + step]) for step in (-1, 1))
        return all(pair in self.pairs for pair in neighbours)


def _either(a: Field | None, b: Field | None) -> Field:
    found = a or b
    assert found is not None  # no pair is empty
    return found


def _path(outer: str, field: Field) -> str:
    return f"{outer}.{field.name}" if outer else field.name


def _place(pair: Pair) -> tuple[int, bool]:
    return _either(pair[1], pair[0]).offset, pair[1] is None


def _pairs(before: Shape, after: Shape) -> Iterator[StructPair]:
    """The regions and, each once, all pairs of structs below them, in the order of their use."""
    seen: set[tuple[str | None, str | None]] = set()
    todo: list[tuple[str, Struct | None, Struct | None]] = [("", before.region, after.region)]
    while todo:
        path, a, b = todo.pop(0)
        names = (a.name if a else None, b.name if b else None)
        if names in seen:
            continue
        seen.add(names)
        pair = StructPair(path, a, b, _fields(a, b))
        yield pair
        for x, y in pair.fields:
            inner_a = before.struct_of(x) if x else None
            inner_b = after.struct_of(y) if y else None
            # Bytes against a struct (Go wraps a text in one) have nothing below to compare.
            if (inner_a and inner_b) or ((inner_a or inner_b) and not (x and y)):
                todo.append((_path(path, _either(x, y)), inner_a, inner_b))


def _fields(a: Struct | None, b: Struct | None) -> tuple[Pair, ...]:
    if a and b:
        return match(a, b)
    if a:
        return tuple((field, None) for field in a.fields)
    return tuple((None, field) for field in b.fields) if b else ()


def _change(pair: StructPair, fields: Pair, mirror: bool) -> Change | None:
    before, after = fields
    struct = pair.after or pair.before
    assert struct is not None
    field = _either(before, after)
    path = _path(pair.path, field)
    if before is None or after is None:
        kind: Kind = "added" if before is None else "removed"
        detail = f"{kind} at {field.offset}, {_bytes(field)}"
        return Change(path, struct.name, before, after, (kind,), not field.padding, detail)
    found = list(_differences(before, after, mirror))
    if not found:
        return None
    breaks = not field.padding and any(breaking for _, breaking, _ in found)
    details = "; ".join(detail for _, _, detail in found)
    return Change(path, struct.name, before, after, tuple(k for k, _, _ in found), breaks, details)


def _differences(before: Field, after: Field, mirror: bool) -> Iterator[tuple[Kind, bool, str]]:
    """What differs between two matched fields: kind, whether it breaks readers, and words."""
    styled = mirror and plain(before.name) == plain(after.name)
    if before.name != after.name and not styled and not before.padding:
        same = before.logical == after.logical
        yield "renamed", not (mirror or same), f"renamed {before.name} to {after.name}"
    if before.offset != after.offset:
        shift = after.offset - before.offset
        yield "moved", True, f"moved by {shift:+}, {before.offset} to {after.offset}"
    if before.size != after.size:
        yield "resized", True, f"resized, {_bytes(before)} to {_bytes(after)}"
    elif (retyped := _retyped(before, after, mirror)) is not None:
        breaks, detail = retyped
        yield "retyped", breaks, detail


def _retyped(before: Field, after: Field, mirror: bool) -> tuple[bool, str] | None:
    """How two fields of one size hold something else, if they do."""
    classes = _class(before), _class(after)
    words = f"{before.type} became {after.type}"
    if "number" in classes and classes[0] == classes[1]:
        if before.ctype.size != after.ctype.size:
            return True, f"{words}: {_bytes(before)} became {_bytes(after)}"
        if before.ctype.kind != after.ctype.kind:
            return False, f"{words}: {before.ctype.kind} became {after.ctype.kind}"
        return None
    if classes[0] != classes[1] and not mirror:
        return True, words
    return None


def _class(field: Field) -> str:
    """What a field is to a reader: a number, bytes, a semaphore or a struct."""
    if field.ctype.kind in ("signed", "unsigned"):
        return "number" if field.ctype.size > 1 else "text"
    return field.ctype.kind


def _bytes(field: Field) -> str:
    if field.array:
        return f"{field.count} x {field.ctype.size} bytes"
    return f"{field.size} bytes"


def _luck(pair: StructPair) -> Iterator[str]:
    """Fields that are in place only because alignment makes up for a wrong field before them."""
    assert pair.before is not None and pair.after is not None
    holes = {start + length: length for start, length in gaps(pair.after)}
    known = {start + length: length for start, length in gaps(pair.before)}
    for before, after in pair.fields:
        if not before or not after or after.padding or before.offset != after.offset:
            continue
        length = holes.get(after.offset)
        if length and known.get(after.offset) != length:
            yield (
                f"{_path(pair.path, before)} is at {after.offset} only because the compiler leaves "
                f"{length} bytes of padding before it"
            )
