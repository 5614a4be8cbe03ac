"""Named raw values out of a private copy of a region. No meaning here: see `decode.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from hami_cache.model import Semaphore
from hami_cache.spec import views
from hami_cache.spec.content import Buffer, read_number
from hami_cache.spec.layout import Layout


class Region:
    """A region's raw values under their logical names.

    Args:
        layout: how to read it.
        data: a private copy of at least `layout.sizeof` bytes.
        verdicts: one byte a slot, an index into `seqlock.VERDICTS`.
    """

    def __init__(self, layout: Layout, data: Buffer, verdicts: bytes) -> None:
        self.layout = layout
        self.data = data
        self.verdicts = verdicts
        procs = layout.field("procs")
        self.slots = np.frombuffer(data, views.slot_dtype(layout), procs.count, procs.offset)
        self._slot = layout.structs[procs.ctype.name]

    def number(self, path: str) -> int | None:
        """An integer of the region; None where the layout has no such field."""
        if not self.layout.has(path):
            return None
        return read_number(self.data, self.layout.field(path))

    def required(self, path: str) -> int:
        """An integer that every layout has."""
        return read_number(self.data, self.layout.field(path))

    def numbers(self, path: str) -> tuple[int, ...]:
        """An array of 64-bit integers of the region."""
        ref = self.layout.field(path)
        return tuple(np.frombuffer(self.data, "<u8", ref.count, ref.offset).tolist())

    def semaphore(self, path: str) -> Semaphore | None:
        """A ``sem_t`` as glibc lays it out on a 64-bit machine: value, waiters, private."""
        if not self.layout.has(path):
            return None
        offset = self.layout.field(path).offset
        value, waiters = np.frombuffer(self.data, "<u4", 2, offset).tolist()
        (private,) = np.frombuffer(self.data, "<i4", 1, offset + 8).tolist()
        return Semaphore(value, waiters, private)

    def raw_text(self, path: str, index: int) -> bytes:
        """An element of a text array, up to its first NUL."""
        ref = self.layout.field(f"{path}[{index}]")
        return bytes(self.data[ref.offset : ref.offset + ref.size]).partition(b"\0")[0]

    def raw_texts(self, path: str) -> list[bytes]:
        """The elements of a text array, each up to its first NUL."""
        ref = self.layout.field(path)
        step = ref.ctype.size
        raw = bytes(self.data[ref.offset : ref.offset + ref.size])
        return [raw[at : at + step].partition(b"\0")[0] for at in range(0, ref.size, step)]

    def column(self, path: str) -> np.ndarray[Any, Any] | None:
        """One slot field over all slots, by its dotted path; None where the layout lacks it."""
        values: np.ndarray[Any, Any] = self.slots
        struct = self._slot
        for name in path.split("."):
            field = struct.get(name)
            if field is None:
                return None
            values = values[field.name]
            struct = self.layout.structs.get(field.ctype.name, struct)
        return values

    def slot_column(self, path: str) -> np.ndarray[Any, Any]:
        """`column` for a field that every layout has."""
        values = self.column(path)
        assert values is not None  # the layout file was checked for it
        return values
