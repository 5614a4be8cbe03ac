"""A region in which every field holds its own offset, so that a wrong offset shows itself.

The places come from the compiler's tables alone (tests/data/abi); nothing of ours puts them there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.spec.test_abi import abi

REGION = "shared_region_t"


@dataclass(frozen=True)
class Place:
    """One number (or one text, or one semaphore) of a region, by its C path with indices."""

    path: str
    type: str
    offset: int
    size: int

    @property
    def number(self) -> bool:
        return self.type not in ("sem_t", "uuid")

    @property
    def raw(self) -> bytes:
        """The offset as this place holds it: a text in decimal, a semaphore in its value."""
        if self.type == "uuid":
            return str(self.offset).encode().ljust(self.size, b"\0")
        if self.type == "sem_t":
            return self.offset.to_bytes(4, "little").ljust(self.size, b"\0")
        return self.offset.to_bytes(self.size, "little")


@cache
def places(name: str, slots: tuple[int, ...] = (0, 1, 511, 1023)) -> tuple[Place, ...]:
    """Every place of a layout's region; of the process slots, only those given."""
    return tuple(_places(abi(name)["structs"], REGION, "", 0, slots))


def _places(
    structs: dict[str, dict[str, list[dict[str, object]]]],
    struct: str,
    prefix: str,
    base: int,
    slots: tuple[int, ...],
) -> Iterator[Place]:
    for field in structs[struct]["fields"]:
        kind, name = str(field["type"]), str(field["name"])
        offset, count, size = (int(str(field[k])) for k in ("offset", "count", "elem_size"))
        for index in slots if name == "procs" else range(count):
            path = f"{prefix}{name}[{index}]" if count > 1 else f"{prefix}{name}"
            place = base + offset + index * size
            if kind in structs:
                yield from _places(structs, kind, f"{path}.", place, slots)
            else:
                yield Place(path, kind, place, size)


def region(name: str, size: int) -> bytearray:
    """The bytes of such a region."""
    data = bytearray(size)
    for place in places(name):
        data[place.offset : place.offset + place.size] = place.raw
    return data
