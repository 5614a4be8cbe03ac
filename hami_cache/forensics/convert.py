"""A region rewritten into another layout, by logical names.

Nothing is lost in silence: what the target has no field for is refused by name, and every
conversion is read back and compared byte for byte before it is handed out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np

from hami_cache.errors import FieldError, SourceError
from hami_cache.forensics.image import Column, Image, columns
from hami_cache.spec.layout import Layout

VERSIONS = ("major_version", "minor_version")
"""Not carried over: they say which layout a file has."""


def convert(source: Image, target: Layout, drop: Collection[str] = ()) -> bytes:
    """A file of another layout that says the same.

    Args:
        source: what to rewrite.
        target: the layout to write.
        drop: logical names, without indices (``procs.seqlock``), that may be lost.

    Returns:
        The bytes of the file, with the tail that the target's writer leaves.

    Raises:
        FieldError: something in the source has no place in the target, or `drop` names no field.
    """
    if source.found.verdict == "mixed" and not source.insisted:
        raise FieldError(
            f"two layouts in one file: {' and '.join(source.found.parties)}",
            path=source.file,
            hint="choose one with --layout, and look at doctor's recovered figures first",
        )
    data = _without(source, drop)
    _refuse_losses(source, columns(source.layout, data), target)
    made = _carry(columns(source.layout, data), target)
    back = _carry(columns(target, made), source.layout)
    if back != data:
        offset = next(i for i, (a, b) in enumerate(zip(back, data, strict=True)) if a != b)
        raise FieldError("bytes that no field explains", path=source.file, offset=offset)
    if any(source.tail):
        raise FieldError("bytes beyond the region", path=source.file, offset=source.layout.sizeof)
    return bytes(made) + bytes(target.identity.trailing)


def write_new(path: Path | str, data: bytes) -> None:
    """Write a file that is not there yet.

    Raises:
        SourceError: there is something of that name, or it cannot be written.
    """
    target = Path(path)
    try:
        file = target.open("xb")
    except FileExistsError:
        raise SourceError(
            "exists already", path=path, hint="a conversion never overwrites a file"
        ) from None
    except OSError as error:
        raise SourceError(f"cannot write: {error.strerror}", path=path) from None
    try:
        with file:
            file.write(data)
    except OSError as error:
        target.unlink(missing_ok=True)
        raise SourceError(f"cannot write: {error.strerror}", path=path) from None


def _without(source: Image, drop: Collection[str]) -> bytearray:
    """The region's bytes, with the dropped fields zeroed."""
    data = bytearray(source.data)
    named = columns(source.layout, data)
    for name in drop:
        hit = [c for c in named.values() if c.name == name or c.name.startswith(f"{name}.")]
        if not hit:
            raise FieldError(f"{source.layout.name} has no such field", field=name)
        for column in hit:
            column.values[...] = 0
    return data


def _refuse_losses(source: Image, old: Mapping[str, Column], target: Layout) -> None:
    losses = list(_losses(source.layout, old, target))
    if losses:
        names = sorted({column.name for column, _ in losses})
        column, index = losses[0]
        raise FieldError(
            f"{target.name} has no place for {', '.join(names)}",
            path=source.file,
            field=column.where(index),
            hint=f"leave it out with {' '.join(f'--drop {name}' for name in names)}",
        )


def _losses(
    layout: Layout, old: Mapping[str, Column], target: Layout
) -> Iterator[tuple[Column, tuple[int, ...]]]:
    """Values that the target cannot hold, with their index: the first of each column."""
    blank = columns(target, bytearray(target.sizeof))
    version = layout.identity.version
    usual = (
        {} if version is None else dict(zip(VERSIONS, (version.major, version.minor), strict=True))
    )
    for name, column in old.items():
        # A version that is not this layout's own says something that would be lost.
        strange = column.values != usual[name] if name in usual else None
        lost = _unheld(column, blank.get(name)) if strange is None else strange
        if lost.any():
            yield column, tuple(np.argwhere(lost)[0].tolist())


def _unheld(column: Column, into: Column | None) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which values of a column another one cannot hold, by index."""
    used = column.used()
    common = _common(column, into)
    if into is None or common is None:
        return used
    held = np.zeros_like(used)
    if column.number:
        room = np.iinfo(into.values.dtype)
        numbers = column.values[common].astype(object)
        held[common] = (numbers >= int(room.min)) & (numbers <= int(room.max))
    else:
        held[common] = ~column.values[common][..., into.field.ctype.size :].any(axis=-1)
    return used & ~held


def _common(column: Column, into: Column | None) -> tuple[slice, ...] | None:
    """The elements that both have; None where the one is not carried into the other at all."""
    if into is None or into.field.padding or len(column.shape) != len(into.shape):
        return None
    if column.kind != into.kind and not (column.number and into.number):
        return None
    return tuple(slice(min(a, b)) for a, b in zip(column.shape, into.shape, strict=True))


def _carry(old: Mapping[str, Column], target: Layout) -> bytearray:
    """A region of the target layout with everything that both sides name alike."""
    data = bytearray(target.sizeof)
    new = columns(target, data)
    for name, column in old.items():
        into = new.get(name)
        common = _common(column, into)
        if into is None or common is None:
            continue
        if into.number:
            into.values[common] = column.values[common]
        else:
            size = min(column.field.ctype.size, into.field.ctype.size)
            into.values[common][..., :size] = column.values[common][..., :size]
    identity = target.identity
    new[identity.magic_field].values[...] = identity.magic
    if identity.version is not None:
        new["major_version"].values[...] = identity.version.major
        new["minor_version"].values[...] = identity.version.minor
    return data
