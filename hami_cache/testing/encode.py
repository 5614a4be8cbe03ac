"""Values into bytes: the writing twin of `spec.content`, for fields of any type and any value."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from hami_cache.errors import FieldError
from hami_cache.model import Semaphore
from hami_cache.spec.layout import CType, FieldRef

Value = int | str | bytes | Semaphore
"""What a field can be set to; `bytes` fit any field and are padded with zeros."""


def encode(ref: FieldRef, value: Value | Sequence[Value]) -> bytes:
    """The bytes of a field with this value: `ref.size` of them, or fewer for a shorter list.

    Args:
        ref: the field; an array without an index takes a list, which may be shorter than the array.
        value: an int is stored as C would store it (2**32 - 1 and -1 are the same int32_t); a text
            is UTF-8, padded with NULs; raw bytes go to any field.

    Raises:
        FieldError: the value is of another kind than the field, or does not fit into its bytes.
    """
    if isinstance(value, bytes):
        return _padded(ref, value, ref.size)
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) > ref.count:
            raise FieldError(f"{len(value)} values for {ref.count} elements", field=ref.path)
        return b"".join(_element(ref, item) for item in value)
    if ref.count != 1:
        raise FieldError(f"has {ref.count} elements, so it takes a list or bytes", field=ref.path)
    return _element(ref, value)


def semaphore(value: Semaphore, size: int) -> bytes:
    """A ``sem_t`` as glibc lays it out on a 64-bit machine."""
    return struct.pack("<IIi", value.value, value.nwaiters, value.private).ljust(size, b"\0")


def _element(ref: FieldRef, value: Value) -> bytes:
    ctype = ref.ctype
    if isinstance(value, bytes):
        return _padded(ref, value, ctype.size)
    if isinstance(value, str) and ctype.kind == "text":
        return _padded(ref, value.encode(), ctype.size)
    if isinstance(value, int) and ctype.kind in ("signed", "unsigned"):
        return _number(ref, ctype, value)
    if isinstance(value, Semaphore) and ctype.kind == "semaphore":
        return semaphore(value, ctype.size)
    raise FieldError(f"a {ctype.name} cannot hold {value!r}", field=ref.path)


def _number(ref: FieldRef, ctype: CType, value: int) -> bytes:
    bits = 8 * ctype.size
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise FieldError(f"{value} does not fit into {bits} bits", field=ref.path)
    return (value % (1 << bits)).to_bytes(ctype.size, "little")


def _padded(ref: FieldRef, raw: bytes, size: int) -> bytes:
    if len(raw) > size:
        raise FieldError(f"{len(raw)} bytes do not fit into {size}", field=ref.path)
    return raw.ljust(size, b"\0")
