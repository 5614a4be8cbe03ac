"""A struct as some source declares it: names, types, offsets, and nothing of a layout's identity.

A layout file, a C header, an ELF's debug information and a Go mirror all become a `Shape`; the
comparison, the picture and the import work on shapes and do not care where one came from. Structs
and fields are those of `spec.layout`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hami_cache.errors import HamiCacheError
from hami_cache.spec.layout import CType, Field, Layout, Struct, Version

REGION = "shared_region_t"
"""What HAMi-core calls the struct that it maps."""

POINTER_SIZE = 8
LP64_MACHINES = ("x86_64", "aarch64")
"""The machines that HAMi-core runs on; they place fields alike."""

MAX_FIELDS = 2000
"""The region has some fifty; comparing takes the square of it."""

_PADDING = re.compile(r"_*(unused|reserved|rsvd|padding|pad|gap)?_*\d*", re.IGNORECASE)


class ShapeError(HamiCacheError):
    """A source that declares no usable struct: what is missing, where, and what to do about it."""


@dataclass(frozen=True, eq=False)
class Shape:
    """The region a source declares.

    Attributes:
        name: what people call it: a layout's name, or the file.
        region: the outermost struct.
        structs: every struct that the region holds, by name, inner ones first.
        version: major and minor as the source says; None where it does not say.
        magic: likewise.
        judge: who placed the fields.
        machines: the architectures that the offsets hold for.
        mirror: written in another language, where names and bare bytes may differ without harm.
    """

    name: str
    region: Struct
    structs: Mapping[str, Struct]
    version: Version | None
    magic: int | None
    judge: str
    machines: tuple[str, ...]
    mirror: bool = False

    def __post_init__(self) -> None:
        if sum(len(struct.fields) for struct in self.structs.values()) > MAX_FIELDS:
            raise ShapeError(f"declares more than {MAX_FIELDS} fields", path=self.name)

    def struct_of(self, field: Field) -> Struct | None:
        """The struct that a field holds, or None."""
        return self.structs.get(field.ctype.name) if field.ctype.kind == "struct" else None


def of_layout(layout: Layout) -> Shape:
    """A layout without its identity."""
    return Shape(
        layout.name,
        layout.region,
        layout.structs,
        layout.identity.version,
        layout.identity.magic,
        layout.abi.witness,
        layout.abi.architectures,
    )


def reachable(region: Struct, structs: Mapping[str, Struct]) -> dict[str, Struct]:
    """The structs that a region holds, inner ones first, itself last."""
    found: dict[str, Struct] = {}

    def visit(struct: Struct) -> None:
        for field in struct.fields:
            if field.ctype.kind == "struct" and field.ctype.name not in found:
                visit(structs[field.ctype.name])
        found[struct.name] = struct

    visit(region)
    return found


def element_of(ctype: CType, dimensions: Sequence[int]) -> tuple[CType, int, bool]:
    """What a field with these array bounds holds: element type, count, and whether it is an array.

    All bounds are one count, except that the last bound of several over bytes is a text: ``char
    x[16][96]`` is 16 texts.
    """
    if ctype.size == 1 and ctype.kind in ("signed", "unsigned") and len(dimensions) > 1:
        length = dimensions[-1]
        ctype = CType(f"{ctype.name}[{length}]", length, ctype.align, "text")
        dimensions = dimensions[:-1]
    return ctype, math.prod(dimensions), bool(dimensions)


def plain(name: str) -> str:
    """A name without what styles differ in: ``owner_pid`` and ``ownerPid`` are ``ownerpid``."""
    return name.replace("_", "").lower()


def is_padding(name: str) -> bool:
    """Whether a field's name says that nothing is in it: ``unused``, ``reserved2``, Go's ``_``."""
    return _PADDING.fullmatch(name) is not None


def gaps(struct: Struct) -> Iterator[tuple[int, int]]:
    """The bytes no field covers, as (offset, length): alignment's own padding."""
    end = 0
    for field in struct.fields:
        if field.offset > end:
            yield end, field.offset - end
        end = max(end, field.end)
    if struct.sizeof > end:
        yield end, struct.sizeof - end


def choose_region(names: Sequence[str], wanted: str, source: object) -> str:
    """The declared struct meant by `wanted`: that very name, or the only one that differs in style.

    Raises:
        ShapeError: there is none; lists what there is.
    """
    if wanted in names:
        return wanted
    alike = [n for n in names if plain(n).removesuffix("t") == plain(wanted).removesuffix("t")]
    if len(alike) == 1:
        return alike[0]
    found = ", ".join(names[:8]) or "none"
    raise ShapeError(
        f"declares no struct {wanted} (structs there: {found})",
        path=source,
        hint="name it with --struct",
    )
