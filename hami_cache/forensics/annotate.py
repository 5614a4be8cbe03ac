"""A region's bytes cut into named pieces: what hexdump paints.

Every byte belongs to exactly one piece, in the order of the file: fields, padding that has a name
(`unused`), gaps that the compiler left, and whatever lies beyond the region. Neighbouring elements
of an array that are all zero become one piece.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from hami_cache.errors import FieldError
from hami_cache.forensics import values
from hami_cache.forensics.values import Value
from hami_cache.spec.layout import CType, Field, Layout, Struct

PieceKind = Literal["field", "padding", "gap", "beyond", "unknown"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes with one meaning.

    Attributes:
        offset, size: in bytes, from the start of the file.
        name: a field path; of a run of zeros the first one, and `last` is the last one.
        kind: ``gap``: between fields. ``beyond``: past the region. ``unknown``: no layout is known.
        zero: nothing but zeros.
        value: of a single field, else None.
    """

    offset: int
    size: int
    name: str
    kind: PieceKind
    zero: bool
    value: Value | None = None
    last: str = ""

    @property
    def label(self) -> str:
        """The name; of a run with the last index, such as ``limit[1..15]``."""
        if not self.last:
            return self.name
        return f"{self.name.removesuffix(']')}..{self.last.rpartition('[')[2]}"


def pieces(layout: Layout | None, data: bytes, field: str | None = None) -> Iterator[Piece]:
    """Cut a file's bytes into pieces.

    Args:
        layout: how to read them; None: the bytes have no names.
        data: the whole file, or less than the region.
        field: only what lies in this field, such as ``procs[3].used[0]``.

    Raises:
        FieldError: there is no such field, or the file ends before it.
    """
    if layout is None:
        if field is not None:
            raise FieldError("no layout is known for this file", field=field, hint="use --layout")
        if data:
            yield Piece(0, len(data), "", "unknown", _zero(data, 0, len(data)))
        return
    cutter = _Cutter(layout, data)
    if field is not None:
        ref = layout.field(field)
        if ref.offset + ref.size > len(data):
            raise FieldError(f"the file has only {len(data)} bytes", field=field, offset=ref.offset)
        yield from cutter.elements(ref.ctype, ref.count, ref.offset, field, ref.count > 1, "field")
        return
    yield from cutter.struct(layout.region, 0, "")
    if len(data) > layout.sizeof:
        size = len(data) - layout.sizeof
        yield Piece(layout.sizeof, size, "", "beyond", _zero(data, layout.sizeof, size))


def changed_bytes(before: bytes, after: bytes) -> list[int]:
    """The offsets of all bytes that differ, in order; both have the same length."""
    old, new = np.frombuffer(before, np.uint8), np.frombuffer(after, np.uint8)
    offsets: list[int] = np.flatnonzero(old != new).tolist()
    return offsets


def touched(found: Iterable[Piece], changed: Sequence[int]) -> Iterator[Piece]:
    """The pieces that hold a changed byte.

    Args:
        found: pieces.
        changed: offsets, in order.
    """
    for piece in found:
        first = bisect_left(changed, piece.offset)
        if first < len(changed) and changed[first] < piece.offset + piece.size:
            yield piece


def document(found: Iterable[Piece], data: bytes) -> list[dict[str, Any]]:
    """The pieces in the JSON of `hexdump`; the bytes of a run of zeros are left out."""
    return [
        {
            "offset": piece.offset,
            "size": piece.size,
            "name": piece.name,
            "last": piece.last or None,
            "kind": piece.kind,
            "value": None if piece.value is None else values.plain(piece.value),
            "hex": None if piece.zero else data[piece.offset : piece.offset + piece.size].hex(),
        }
        for piece in found
    ]


def _zero(data: bytes, offset: int, size: int) -> bool:
    return data.count(0, offset, offset + size) == size


class _Cutter:
    """Walks a layout's structs over the bytes."""

    def __init__(self, layout: Layout, data: bytes) -> None:
        self._layout = layout
        self._data = data

    def struct(self, struct: Struct, base: int, prefix: str) -> Iterator[Piece]:
        """The pieces of one struct that begins at `base`."""
        end = base
        for field in struct.fields:
            yield from self._gap(end, base + field.offset)
            yield from self._field(field, base, prefix)
            end = base + field.end
        yield from self._gap(end, base + struct.sizeof)

    def elements(
        self, ctype: CType, count: int, offset: int, name: str, array: bool, kind: PieceKind
    ) -> Iterator[Piece]:
        """The pieces of a field, all its elements; neighbours that are all zero as one."""
        run: Piece | None = None
        for index in range(count):
            at = offset + index * ctype.size
            if at >= len(self._data):
                break
            path = f"{name}[{index}]" if array else name
            if array and _zero(self._data, at, ctype.size):
                zeros = Piece(at, ctype.size, path, kind, True)
                run = replace(run, size=run.size + ctype.size, last=path) if run else zeros
                continue
            if run:
                yield run
                run = None
            yield from self._element(ctype, at, path, kind)
        if run:
            yield run

    def _field(self, field: Field, base: int, prefix: str) -> Iterator[Piece]:
        name = f"{prefix}{field.logical}"
        kind: PieceKind = "padding" if field.padding else "field"
        offset = base + field.offset
        return self.elements(field.ctype, field.count, offset, name, field.array, kind)

    def _element(self, ctype: CType, offset: int, name: str, kind: PieceKind) -> Iterator[Piece]:
        if ctype.kind == "struct":
            yield from self.struct(self._layout.structs[ctype.name], offset, f"{name}.")
            return
        there = min(ctype.size, len(self._data) - offset)
        if there < ctype.size:
            yield Piece(offset, there, name, kind, _zero(self._data, offset, there))
            return
        value = values.read(self._data, ctype, offset)
        yield Piece(offset, ctype.size, name, kind, _zero(self._data, offset, ctype.size), value)

    def _gap(self, start: int, stop: int) -> Iterator[Piece]:
        stop = min(stop, len(self._data))
        if stop > start:
            yield Piece(start, stop - start, "", "gap", _zero(self._data, start, stop - start))
