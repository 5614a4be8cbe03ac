"""Plain integers out of raw bytes, by a layout's offsets.

Identification runs before anything is known about a file and in commands that must start fast, so
this needs neither numpy nor the native reader. The bytes are not live: the caller has read them.
What lies past their end reads as zero, as it would in a sparse file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter

from hami_cache.spec.layout import FieldRef, Layout, Struct

Buffer = bytes | bytearray | memoryview
Values = tuple[int, ...]

_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}


def number_code(size: int, kind: str) -> str:
    """The `struct` format character of an integer type."""
    code = _CODES[size]
    return code if kind == "signed" else code.upper()


@lru_cache(maxsize=256)
def _single(code: str) -> struct.Struct:
    return struct.Struct("<" + code)


def piece(data: Buffer, offset: int, size: int) -> bytes:
    """`size` bytes from `offset` on."""
    return bytes(data[offset : offset + size]).ljust(size, b"\0")


def number_reader(ref: FieldRef) -> Callable[[Buffer], int]:
    """A function that reads the integer at a resolved place."""
    form = _single(number_code(ref.ctype.size, ref.ctype.kind))
    offset, end = ref.offset, ref.offset + form.size

    def read(data: Buffer) -> int:
        if len(data) < end:
            (value,) = form.unpack(piece(data, offset, form.size))
        else:
            (value,) = form.unpack_from(data, offset)
        return int(value)

    return read


def read_number(data: Buffer, ref: FieldRef) -> int:
    """The integer at a resolved place."""
    return number_reader(ref)(data)


class SlotTable:
    """A layout's process slots as tuples of integers, one `struct` call a slot.

    Args:
        layout: where the slots lie.
        wanted: dotted paths below the slot (``used.total``, ``status``) whose values are asked for.
    """

    def __init__(self, layout: Layout, wanted: Collection[str]) -> None:
        procs = layout.region.get("procs")
        assert procs is not None  # every layout file is checked for it
        self.offset = procs.offset
        self.stride = procs.ctype.size
        self.count = procs.count
        slot = layout.struct_of(procs)
        plan = _SlotPlan(layout, wanted)
        plan.add(slot, "", 0)
        self._slot = struct.Struct("<" + "".join(plan.codes) + f"{slot.sizeof - plan.end}x")
        self._columns: Mapping[str, Sequence[int]] = plan.columns
        pid = slot.get("pid")
        assert pid is not None
        self._pid = self.offset + pid.offset
        self._blank = bytes(self.stride)

    def column(self, path: str) -> Callable[[Values], Values]:
        """A function that picks a path's values, one for each element, out of a slot's tuple."""
        positions = self._columns[path]
        if len(positions) == 1:
            (position,) = positions
            return lambda values: (values[position],)
        return itemgetter(*positions)

    def inhabited(self, data: Buffer, below: int) -> list[int]:
        """The slots before `below`, and those past it whose pid is not 0."""
        below = min(max(below, 0), self.count)
        table = memoryview(data)[self._pid : self._pid + (self.count - 1) * self.stride + 4]
        words = table[: len(table) // 4 * 4].cast("i")
        pids = words[:: self.stride // 4].tobytes()
        # The last one that is not 0, by its highest bit: several times faster than rstrip.
        last = (int.from_bytes(pids, "little").bit_length() + 31) // 32
        return [i for i in range(max(last, below)) if i < below or any(pids[4 * i : 4 * i + 4])]

    def blank(self, data: Buffer, index: int) -> bool:
        """Whether a slot is all zero, padding included: nobody was ever there."""
        offset = self.offset + index * self.stride
        return piece(data, offset, self.stride) == self._blank

    def slot(self, data: Buffer, index: int) -> Values:
        """The wanted integers of one slot, in the order of its fields."""
        offset = self.offset + index * self.stride
        if len(data) < offset + self.stride:
            return self._slot.unpack(piece(data, offset, self.stride))
        return self._slot.unpack_from(data, offset)

    def span(self, index: int) -> range:
        """The offsets that a slot covers in the file."""
        start = self.offset + index * self.stride
        return range(start, start + self.stride)

    def touched(self, span: range) -> range:
        """The slots that lie, at least in part, where `span` lies."""
        first = (span.start - self.offset) // self.stride
        last = (span.stop - 1 - self.offset) // self.stride
        return range(max(first, 0), min(last + 1, self.count))


class _SlotPlan:
    """The `struct` format of a slot, built field by field."""

    def __init__(self, layout: Layout, wanted: Collection[str]) -> None:
        self._layout = layout
        self._wanted = wanted
        self._values = 0
        self.codes: list[str] = []
        self.columns: dict[str, list[int]] = {}
        self.end = 0

    def add(self, part: Struct, prefix: str, base: int) -> None:
        """Append the fields of `part`, which lies at `base` inside the slot."""
        for field in part.fields:
            path = prefix + field.logical
            nested = self._layout.structs.get(field.ctype.name)
            if nested is None and path not in self._wanted:
                continue
            for element in range(field.count):
                offset = base + field.offset + element * field.ctype.size
                if nested is not None:
                    self.add(nested, f"{path}.", offset)
                    continue
                code = number_code(field.ctype.size, field.ctype.kind)
                self.codes.append(f"{offset - self.end}x{code}")
                self.columns.setdefault(path, []).append(self._values)
                self._values += 1
                self.end = offset + field.ctype.size
