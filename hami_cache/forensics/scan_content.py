"""The bytes of cache files, without the cost of their holes.

A real cache is 1 to 2 MB of which a few kB were ever written. Holes are neither read from a sparse
file nor sent to another process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hami_cache.errors import SourceError
from hami_cache.read.source import OpenFile, data_extents

BLOCK = 4096
"""Zeros are left out in blocks of this many bytes."""


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes: what is not zero, by offset.

    Attributes:
        size: of the whole file, in bytes.
        extents: offsets and bytes, in order; all else is zero.
    """

    size: int
    extents: tuple[tuple[int, bytes], ...]


def squeeze(data: bytes) -> Content:
    """A file's bytes without the blocks that are all zero."""
    whole = len(data) // BLOCK
    blocks = np.frombuffer(data, np.uint64, whole * BLOCK // 8).reshape(whole, BLOCK // 8)
    written = np.concatenate(([False], blocks.any(axis=1), [any(data[whole * BLOCK :])], [False]))
    edges = (np.flatnonzero(written[1:] != written[:-1]) * BLOCK).tolist()
    extents = (
        (start, data[start:stop]) for start, stop in zip(edges[::2], edges[1::2], strict=True)
    )
    return Content(len(data), tuple(extents))


class Workspace:
    """Memory in which one file after another is put together.

    A view that it gives is good until the next one is asked for.
    """

    def __init__(self) -> None:
        self._memory = bytearray()
        self._written: list[tuple[int, int]] = []

    def unfold(self, content: Content) -> memoryview:
        """The whole bytes of a content."""
        view = self._blank(content.size)
        for offset, piece in content.extents:
            view[offset : offset + len(piece)] = piece
            self._written.append((offset, offset + len(piece)))
        return view

    def load(self, file: OpenFile, path: Path | str) -> memoryview:
        """The whole bytes of an open file; what was cut off meanwhile is missing or zero.

        Raises:
            SourceError: reading fails.
        """
        view = self._blank(file.size)
        try:
            for start, stop in data_extents(file.fd, file.size):
                self._written.append((start, stop))
                while start < stop:
                    count = os.preadv(file.fd, [view[start:stop]], start)
                    if count == 0:
                        return view[:start]
                    start += count
        except OSError as error:
            raise SourceError(f"cannot read: {error.strerror}", path=path) from None
        return view

    def _blank(self, size: int) -> memoryview:
        """That many zero bytes."""
        if len(self._memory) < size:
            self._memory = bytearray(size)
        else:
            view = memoryview(self._memory)
            for start, stop in self._written:
                view[start:stop] = bytes(stop - start)
        self._written.clear()
        return memoryview(self._memory)[:size]
