"""Plain integers out of raw bytes, by a layout's offsets.

Identification runs before anything is known about a file and in commands that must start fast, so
this needs neither numpy nor the native reader. The bytes are not live: the caller has read or
mapped them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

from hami_cache.spec.layout import FieldRef, Layout, Struct

Buffer = bytes | bytearray | memoryview

_CODES = {(1, "signed"): "b", (2, "signed"): "h", (4, "signed"): "i", (8, "signed"): "q"}


def number_code(size: int, kind: str) -> str:
    """The `struct` format character of an integer type."""
    code = _CODES[(size, "signed")]
    return code if kind == "signed" else code.upper()


@lru_cache(maxsize=256)
def _single(code: str) -> struct.Struct:
    return struct.Struct("<" + code)


def read_number(data: Buffer, ref: FieldRef) -> int:
    """The integer at a resolved place."""
    (value,) = _single(number_code(ref.ctype.size, ref.ctype.kind)).unpack_from(data, ref.offset)
    return int(value)


class SlotTable:
    """A layout's process slots as tuples of integers, one `struct` call a slot.

    `columns` maps a dotted path below the slot (``used.total``, ``status``) to the positions of its
    values in
    that tuple: one for a plain field, one for each element for an array.
    """

    def __init__(self, layout: Layout) -> None:
        procs = layout.region.get("procs")
        assert procs is not None  # every layout file is checked for it
        self.offset = procs.offset
        self.stride = procs.ctype.size
        self.count = procs.count
        slot = layout.struct_of(procs)
        plan = _SlotPlan(layout)
        plan.add(slot, "", 0)
        self._slot = struct.Struct("<" + "".join(plan.codes) + f"{slot.sizeof - plan.end}x")
        self.columns: Mapping[str, Sequence[int]] = plan.columns
        pid = slot.get("pid")
        assert pid is not None
        rest = slot.sizeof - pid.offset - 4
        self._pid = struct.Struct(f"<{pid.offset}xi{rest}x")

    def pids(self, data: Buffer) -> list[int]:
        """The pid of every slot in the table."""
        table = memoryview(data)[self.offset : self.offset + self.stride * self.count]
        return [pid for (pid,) in self._pid.iter_unpack(table)]

    def slot(self, data: Buffer, index: int) -> tuple[int, ...]:
        """All integers of one slot, in the order of its fields."""
        return self._slot.unpack_from(data, self.offset + index * self.stride)


class _SlotPlan:
    """The `struct` format of a slot, built field by field."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._values = 0
        self.codes: list[str] = []
        self.columns: dict[str, list[int]] = {}
        self.end = 0

    def add(self, part: Struct, prefix: str, base: int) -> None:
        """Append the fields of `part`, which lies at `base` inside the slot."""
        for field in part.fields:
            nested = self._layout.structs.get(field.ctype.name)
            for element in range(field.count):
                offset = base + field.offset + element * field.ctype.size
                if nested is not None:
                    self.add(nested, f"{prefix}{field.logical}.", offset)
                    continue
                if offset > self.end:
                    self.codes.append(f"{offset - self.end}x")
                if field.ctype.kind in ("signed", "unsigned"):
                    self.codes.append(number_code(field.ctype.size, field.ctype.kind))
                    self.columns.setdefault(prefix + field.logical, []).append(self._values)
                    self._values += 1
                else:
                    self.codes.append(f"{field.ctype.size}x")
                self.end = offset + field.ctype.size
