"""A region's bytes under a layout, and its values as columns with logical names.

What diff, hexdump and convert stand on: raw values by field path, without any meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hami_cache.read.cache import Engine, open_cache
from hami_cache.read.source import read_all
from hami_cache.spec import views
from hami_cache.spec.identify import Identification
from hami_cache.spec.layout import Field, Kind, Layout, Struct


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """A file's bytes, and the layout to read them with.

    Attributes:
        data: `layout.sizeof` bytes.
        tail: what the file has beyond them.
        found: what the content was taken for.
        insisted: `layout` was asked for, whatever the content was taken for.
    """

    file: str
    layout: Layout
    data: bytes
    tail: bytes
    found: Identification
    insisted: bool

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return len(self.data) + len(self.tail)


def load(
    path: Path | str,
    *,
    layout: str | None = None,
    layouts: Path | str | None = None,
    follow: bool = False,
    engine: Engine = "native",
) -> Image:
    """Read a cache file; a live one consistently, slot by slot.

    Raises:
        HamiCacheError: as `open_cache`.
    """
    with open_cache(path, layout=layout, layouts=layouts, follow=follow, engine=engine) as cache:
        data = cache.copy().data
        tail = read_all(path, follow=follow)[cache.layout.sizeof :]
        found = cache.identification
        return Image(str(path), cache.layout, data, tail, found, layout is not None)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """All values of one field, over all elements of the arrays that it lies in.

    Attributes:
        path: the names on the way to it, with whether each is an array.
        field: the field itself.
        values: integers by array index; texts and semaphores have one more axis: their bytes.
    """

    path: tuple[tuple[str, bool], ...]
    field: Field
    values: np.ndarray[Any, Any]

    @property
    def name(self) -> str:
        """The dotted logical path without indices, such as ``procs.used.total``."""
        return ".".join(name for name, _ in self.path)

    @property
    def kind(self) -> Kind:
        """What the field holds."""
        return self.field.ctype.kind

    @property
    def number(self) -> bool:
        """Whether the values are integers."""
        return self.kind in ("signed", "unsigned")

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements by array index."""
        sizes: tuple[int, ...] = self.values.shape
        return sizes if self.number else sizes[:-1]

    def where(self, index: tuple[int, ...]) -> str:
        """The field path of one value, such as ``procs[3].used[0].total``."""
        left = iter(index)
        return ".".join(f"{name}[{next(left)}]" if array else name for name, array in self.path)

    def raw(self, index: tuple[int, ...]) -> bytes:
        """The bytes of one value; none where the arrays end before it."""
        inside = all(i < n for i, n in zip(index, self.shape, strict=True))
        return np.asarray(self.values[index]).tobytes() if inside else b""

    def used(self) -> np.ndarray[Any, Any]:
        """Which values are not all zero, by index."""
        nonzero = np.asarray(self.values != 0)
        return nonzero if self.number else np.asarray(nonzero.any(axis=-1))


def columns(layout: Layout, data: bytes | bytearray) -> dict[str, Column]:
    """Every column of a region by its name, in the order of the file.

    Args:
        layout: how to read the bytes.
        data: at least `layout.sizeof` bytes; the columns of a bytearray can be written to.
    """
    region = np.frombuffer(data, views.dtype(layout), 1).reshape(())
    return {column.name: column for column in _columns(layout, layout.region, region, ())}


def _columns(
    layout: Layout, struct: Struct, values: Any, path: tuple[tuple[str, bool], ...]
) -> Iterator[Column]:
    for field in struct.fields:
        inner = (*path, (field.logical, field.array))
        if field.ctype.kind == "struct":
            yield from _columns(layout, layout.struct_of(field), values[field.name], inner)
        else:
            yield Column(inner, field, values[field.name])
