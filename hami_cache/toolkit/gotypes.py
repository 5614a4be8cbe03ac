"""Go's types and how its compiler lays them out on amd64 and arm64 (there is one rule for both)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hami_cache.spec.layout import CType, Field, Kind, Struct, align_up
from hami_cache.toolkit.shape import POINTER_SIZE, is_padding

_NUMBERS: Mapping[str, tuple[int, Kind]] = {
    "int8": (1, "signed"), "int16": (2, "signed"), "int32": (4, "signed"), "int64": (8, "signed"),
    "uint8": (1, "unsigned"), "uint16": (2, "unsigned"), "uint32": (4, "unsigned"),
    "uint64": (8, "unsigned"), "int": (8, "signed"), "uint": (8, "unsigned"),
    "byte": (1, "unsigned"), "bool": (1, "unsigned"), "rune": (4, "signed"),
    "uintptr": (8, "unsigned"), "unsafe.Pointer": (8, "unsigned"),
    "atomic.Int32": (4, "signed"), "atomic.Uint32": (4, "unsigned"), "atomic.Int64": (8, "signed"),
    "atomic.Uint64": (8, "unsigned"), "atomic.Uintptr": (8, "unsigned"),
}  # fmt: skip

BUILTIN: Mapping[str, CType] = {
    **{name: CType(name, size, size, kind) for name, (size, kind) in _NUMBERS.items()},
    "atomic.Bool": CType("atomic.Bool", 4, 4, "unsigned"),
    "float32": CType("float32", 4, 4, "text"),
    "float64": CType("float64", 8, 8, "text"),
    "string": CType("string", 2 * POINTER_SIZE, POINTER_SIZE, "text"),
}
"""Types that Go has, and those of sync/atomic that have the size of their value."""

POINTER = CType("pointer", POINTER_SIZE, POINTER_SIZE, "unsigned")
SLICE = CType("slice", 3 * POINTER_SIZE, POINTER_SIZE, "text")


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a Go struct; the fields of an embedded struct count as the outer one's."""

    name: str
    element: CType
    count: int
    array: bool
    embedded: bool


def place(name: str, members: Iterable[Member], structs: Mapping[str, Struct]) -> Struct:
    """A Go struct from its members in order; `structs` has those that they hold."""
    fields: list[Field] = []
    end, align, size = 0, 1, 1
    for member in members:
        element = member.element
        offset = align_up(end, element.align)
        size = element.size * member.count
        end, align = offset + size, max(align, element.align)
        inner = structs.get(element.name) if member.embedded else None
        if inner:
            fields += [replace(field, offset=field.offset + offset) for field in inner.fields]
        else:
            fields.append(_field(member, offset))
    if end and not size:
        end += 1  # so that a pointer to a last member without bytes stays inside the struct
    return Struct(name, align_up(end, align), align, tuple(fields))


def _field(member: Member, offset: int) -> Field:
    element, name = member.element, member.name
    spelling = f"[{member.count}]{element.name}" if member.array else element.name
    padding = is_padding(name)
    return Field(name, spelling, element, offset, member.count, member.array, name, padding)
