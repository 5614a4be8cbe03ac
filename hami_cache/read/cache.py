"""One cache file, open for reading: identified, mapped, and read as often as asked."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from hami_cache.errors import NotInitialisedError, SourceError
from hami_cache.model import Snapshot
from hami_cache.read import seqlock
from hami_cache.read.look import refusal
from hami_cache.read.seqlock import DEFAULT_BOUNDS, Bounds, RegionCopy, Target
from hami_cache.read.source import OpenFile, open_regular, read_open
from hami_cache.spec import registry
from hami_cache.spec.identify import identify
from hami_cache.spec.layout import Layout

if TYPE_CHECKING:
    import numpy as np

    from hami_cache.read.figures import Figures

# numpy is imported late: the monitor, which only wants figures, does without it and its memory.

HEAD_BYTES = 64
"""Enough for any layout's magic number."""

Engine = Literal["native", "numpy"]


class Cache:
    """An open cache file; made by `open_cache`. A context manager; not for use after `close`.

    Attributes:
        path: as given.
        identification: what the content was taken for when the file was opened.
        layout: what it is read with: the identified layout, or the one asked for.
        file_size: bytes, when it was opened.
        identity: (device, inode) of the open file.
    """

    def __init__(
        self,
        path: Path | str,
        file: OpenFile,
        *,
        layout: Layout | str | None = None,
        layouts: Path | str | None = None,
        engine: Engine = "native",
    ) -> None:
        """Take over an open file: closed with the cache, or at once if it cannot be read."""
        self.path = Path(path)
        self._insisted = layout is not None
        self.file_size = file.size
        self.identity = file.identity
        self._fd = file.fd
        self._mapping: seqlock.Mapping | None = None
        try:
            if layout is None:
                self._refuse_early(file, layouts)
            content = read_open(file, path)
            self.identification = identify(content, registry.layouts(layouts), file.size)
            self.layout = self._choose(layout, layouts)
            if len(content) < self.layout.sizeof:
                need = f"{self.layout.name} has {self.layout.sizeof}"
                raise SourceError(f"{len(content)} bytes are too few: {need}", path=path)
            self._content = bytes(content) if engine == "numpy" else None
            if engine == "native":
                self._mapping = seqlock.Mapping(file.fd, self.layout.sizeof)
        except BaseException:
            self.close()
            raise

    def _refuse_early(self, file: OpenFile, folder: Path | str | None) -> None:
        """A file that is not initialised shows it in its first bytes; the rest need not be read."""
        head = os.pread(file.fd, HEAD_BYTES, 0)
        found = identify(head, registry.layouts(folder), file.size)
        if found.verdict == "not_initialised":
            raise refusal(found, self.path)

    def _choose(self, layout: Layout | str | None, folder: Path | str | None) -> Layout:
        if isinstance(layout, Layout):
            return layout
        if layout is not None:
            return registry.layout(layout, folder)
        if self.identification.layout is None:
            raise refusal(self.identification, self.path)
        return self.identification.layout

    def __enter__(self) -> Cache:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unmap and close the file; a second call does nothing."""
        if self._mapping is not None:
            self._mapping.close()
            self._mapping = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def unchanged(self) -> bool:
        """Whether the open file still has its one name and the size it was opened with."""
        try:
            info = os.fstat(self._fd)
        except OSError:
            return False
        return info.st_nlink == 1 and info.st_size == self.file_size

    def target(self, *, check: bool = True, skip: array[int] | None = None) -> Target:
        """This cache for a `FigurePlan`.

        Args:
            check: let every pass ask whether the file still has a name and its length.
            skip: a host pid for each slot, or 0: a slot that has it is left out of the sums.
        """
        if self._mapping is None:
            raise ValueError("this cache is closed or was opened without the native engine")
        return Target(self._mapping, self.layout, self._fd if check else -1, skip)

    def copy(self, bounds: Bounds = DEFAULT_BOUNDS) -> RegionCopy[bytes]:
        """A private, consistent copy of the region's bytes, with a verdict for every slot.

        Raises:
            SourceError: the file is gone, was cut, or its table changed all the time.
        """
        if self._content is not None:
            from hami_cache.read import offline

            return offline.copy(self.layout, self._content)
        copy = seqlock.copy(self.target(), bounds)
        if copy.status == seqlock.STATUS_GONE:
            raise SourceError("the file is gone or was cut while it was open", path=self.path)
        if copy.status == seqlock.STATUS_UNSETTLED:
            raise SourceError(
                "the slot table changed during every attempt to read it", path=self.path
            )
        return copy

    def snapshot(self, bounds: Bounds = DEFAULT_BOUNDS) -> Snapshot:
        """A consistent reading of everything.

        Raises:
            SourceError: as `copy`.
            NotInitialisedError: the magic number went back to 0; nobody insisted on a layout.
        """
        from hami_cache.read.decode import decode

        copy = self.copy(bounds)
        if copy.status == seqlock.STATUS_NOT_INITIALISED and not self._insisted:
            raise NotInitialisedError("the magic number went back to 0", path=self.path)
        return decode(
            self.layout, copy, self.identification, self.file_size, insisted=self._insisted
        )


def open_cache(
    path: Path | str,
    *,
    layout: Layout | str | None = None,
    layouts: Path | str | None = None,
    follow: bool = False,
    engine: Engine = "native",
) -> Cache:
    """Open a cache file read-only.

    Args:
        path: a regular file.
        layout: read it with this layout whatever the evidence says.
        layouts: a folder of layout files searched first.
        follow: accept a symbolic link.
        engine: ``native`` maps the file and reads it live; ``numpy`` reads the bytes once, for
            files at rest.

    Raises:
        SourceError: the file cannot be opened safely or is too short.
        NotInitialisedError: its writer has not finished initialising it.
        UnknownLayoutError: no layout explains it.
        LayoutError: a layout file is wrong, or there is none of that name.
    """
    file = open_regular(path, follow=follow)
    return Cache(path, file, layout=layout, layouts=layouts, engine=engine)


def read_figures(
    caches: Sequence[Cache],
    out: np.ndarray[Any, Any] | None = None,
    *,
    devices: int | None = None,
    bounds: Bounds = DEFAULT_BOUNDS,
) -> Figures:
    """The figures of many containers in one native call.

    Args:
        caches: open caches.
        out: a uint64 array (containers, devices, len(FIGURES)) to fill.
        devices: rows for each container; None is as many as the largest layout has (16 today).
        bounds: how long to wait for writers.
    """
    from hami_cache.read.figures import FigurePlan

    return FigurePlan([cache.target() for cache in caches], devices, out).read(bounds)
