"""Single values out of a region's bytes: for one field path, as Python and as text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from hami_cache.errors import FieldError
from hami_cache.model import Semaphore
from hami_cache.read.locks import lock
from hami_cache.spec.content import read_number
from hami_cache.spec.layout import CType, FieldRef, Layout, Struct

Value = int | str | Semaphore
"""A number, a text up to its first NUL, or a semaphore."""

WRAP = 1 << 64


def read(data: bytes, ctype: CType, offset: int) -> Value:
    """The value of one element that is not a struct.

    Args:
        data: the region's bytes.
        ctype: what lies there.
        offset: where, in bytes.
    """
    if ctype.kind == "text":
        raw = data[offset : offset + ctype.size].partition(b"\0")[0]
        return raw.decode("utf-8", "backslashreplace")
    if ctype.kind == "semaphore":
        words = (int.from_bytes(data[offset + at : offset + at + 4], "little") for at in (0, 4, 8))
        return Semaphore(*words)
    return read_number(data, FieldRef("", offset, ctype, 1, ctype.name))


def text(value: Value) -> str:
    """A value for people: a counter below zero with its sign, a lock with its state."""
    if isinstance(value, Semaphore):
        found = lock(value)
        return f"{found.state}, value {value.value}, {value.nwaiters} waiting ({found.libc})"
    if isinstance(value, int) and value >= WRAP // 2:
        return f"{value} ({value - WRAP} as a signed number)"
    return str(value)


def plain(value: Value) -> Any:
    """A value for JSON."""
    return asdict(value) if isinstance(value, Semaphore) else value


def at(layout: Layout, data: bytes, path: str) -> Any:
    """What lies at a field path, for JSON: a value, a list for an array, an object for a struct.

    Raises:
        FieldError: the layout has no such field, or the bytes end before it.
    """
    ref = layout.field(path)
    if ref.offset + ref.size > len(data):
        raise FieldError(f"the file has only {len(data)} bytes", field=path, offset=ref.offset)
    items = [
        _element(layout, data, ref.ctype, ref.offset + i * ref.ctype.size) for i in range(ref.count)
    ]
    return items[0] if ref.count == 1 else items


def _element(layout: Layout, data: bytes, ctype: CType, offset: int) -> Any:
    if ctype.kind != "struct":
        return plain(read(data, ctype, offset))
    return _struct(layout, data, layout.structs[ctype.name], offset)


def _struct(layout: Layout, data: bytes, struct: Struct, base: int) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for field in struct.fields:
        items = [
            _element(layout, data, field.ctype, base + field.offset + i * field.ctype.size)
            for i in range(field.count)
        ]
        document[field.logical] = items if field.array else items[0]
    return document
