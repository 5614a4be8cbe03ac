"""Structs, fields and layouts, and the C arithmetic that places them.

Nothing here knows a version: a `Layout` is what its file says (`specfile.py` reads it), checked
against the rules by which a C compiler on an LP64 little-endian Linux places fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hami_cache.errors import FieldError

if TYPE_CHECKING:
    import numpy as np

Kind = Literal["signed", "unsigned", "semaphore", "text", "struct"]

C_INTEGERS: Mapping[str, tuple[int, Kind]] = {
    "char": (1, "signed"),
    "int8_t": (1, "signed"),
    "uint8_t": (1, "unsigned"),
    "int16_t": (2, "signed"),
    "uint16_t": (2, "unsigned"),
    "int": (4, "signed"),
    "int32_t": (4, "signed"),
    "unsigned": (4, "unsigned"),
    "unsigned int": (4, "unsigned"),
    "uint32_t": (4, "unsigned"),
    "pid_t": (4, "signed"),
    "long": (8, "signed"),
    "int64_t": (8, "signed"),
    "unsigned long": (8, "unsigned"),
    "uint64_t": (8, "unsigned"),
    "size_t": (8, "unsigned"),
}
"""C's integer types under LP64: size in bytes (which is also the alignment) and signedness."""


@dataclass(frozen=True, slots=True)
class CType:
    """A C type: its spelling without qualifiers, size and alignment in bytes, and what it holds."""

    name: str
    size: int
    align: int
    kind: Kind


def bare_type(spelling: str) -> str:
    """A type's name without the qualifiers that change neither size nor place on Linux."""
    return re.sub(r"\b(_Atomic|volatile|const)\b", "", spelling).strip()


def align_up(offset: int, align: int) -> int:
    """The next multiple of `align` at or after `offset`."""
    return -(-offset // align) * align


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a struct. Offsets and sizes are in bytes, from the start of its struct.

    Attributes:
        name: as the C source has it.
        type: the C type as written, qualifiers included.
        count: elements; 1 with `array` False is a plain member.
        logical: the name this library uses for it in every layout (``num`` is ``device_num``).
        padding: bytes that the writer keeps zero.
    """

    name: str
    type: str
    ctype: CType
    offset: int
    count: int
    array: bool
    logical: str
    padding: bool = False

    @property
    def size(self) -> int:
        """Bytes of the whole member, all elements together."""
        return self.ctype.size * self.count

    @property
    def end(self) -> int:
        """The offset just past the member."""
        return self.offset + self.size


@dataclass(frozen=True)
class Struct:
    """A C struct: fields in order, size and alignment in bytes."""

    name: str
    sizeof: int
    alignof: int
    fields: tuple[Field, ...]

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {f.logical: f for f in self.fields} | {f.name: f for f in self.fields}

    def get(self, name: str) -> Field | None:
        """The field of that C name or logical name."""
        return self._by_name.get(name)

    def place(self, index: int) -> int:
        """Where a C compiler puts field `index`, given where the ones before it lie."""
        before = self.fields[index - 1].end if index else 0
        return align_up(before, self.fields[index].ctype.align)


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A place inside a region, resolved from a path such as ``procs[3].used[1].total``.

    `offset` counts from the start of the file; `count` is 1 once an index was given.
    """

    path: str
    offset: int
    ctype: CType
    count: int
    type: str

    @property
    def size(self) -> int:
        """Bytes covered."""
        return self.ctype.size * self.count


@dataclass(frozen=True, slots=True)
class Element:
    """The first element under a path without indices: its offset in the region, type and count."""

    offset: int
    ctype: CType
    count: int
    array: bool


@dataclass(frozen=True, slots=True)
class Version:
    """The version a header carries."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class Probe:
    """One question about the content and the weight of its answer; kinds: see `probes.py`."""

    kind: str
    field: str
    weight: float
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Identity:
    """How a file of this layout is told from others.

    Attributes:
        magic_field: the field that holds `magic` once the region is initialised.
        version: what the header says; None where the header has no version.
        trailing: how many bytes a real file may have beyond the struct.
    """

    magic_field: str
    magic: int
    version: Version | None
    trailing: int
    probes: tuple[Probe, ...]


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where the layout comes from."""

    project: str
    since: str
    before: str
    commits: tuple[str, ...]
    releases: tuple[str, ...]
    changes: str


@dataclass(frozen=True, slots=True)
class Abi:
    """On which machines the offsets hold, and who says so."""

    byte_order: str
    data_model: str
    architectures: tuple[str, ...]
    witness: str


@dataclass(frozen=True, slots=True)
class Seqlock:
    """The per-slot sequence lock and what it protects, as dotted paths without indices."""

    field: str
    covers: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Layout:
    """One layout of `shared_region_t`, as its file describes it. Compared by identity."""

    name: str
    order: int
    summary: str
    upstream: Upstream
    abi: Abi
    identity: Identity
    seqlock: Seqlock | None
    region: Struct
    structs: Mapping[str, Struct]
    path: Path

    @property
    def sizeof(self) -> int:
        """Bytes of the region; a real file has `identity.trailing` more."""
        return self.region.sizeof

    @property
    def file_sizes(self) -> range:
        """The lengths that a file of this layout has."""
        return range(self.sizeof, self.sizeof + self.identity.trailing + 1)

    def struct_of(self, field: Field) -> Struct:
        """The struct that a field of kind ``struct`` holds."""
        return self.structs[field.ctype.name]

    def element(self, path: str) -> Element | None:
        """What a dotted path without indices (``procs.used.total``) leads to, or None."""
        return _element(self, path)

    def has(self, path: str) -> bool:
        """Whether a dotted path without indices (``procs.seqlock``) exists here."""
        return self.element(path) is not None

    def field(self, path: str) -> FieldRef:
        """Resolve a path such as ``procs[3].used[1].total`` or ``uuids[0]``; C or logical names.

        Raises:
            FieldError: the path does not parse, or leads nowhere, or leaves an array.
        """
        return _field(self, path)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The region as a numpy structured dtype: itemsize is `sizeof`, names are the C names."""
        from hami_cache.spec import views

        return views.dtype(self)

    @cached_property
    def construct(self) -> Any:
        """The region as a construct Struct that parses and builds every byte."""
        from hami_cache.spec import views

        return views.construct(self)


@lru_cache(maxsize=4096)
def _element(layout: Layout, path: str) -> Element | None:
    struct: Struct | None = layout.region
    field: Field | None = None
    offset = 0
    for name in path.split("."):
        field = struct.get(name) if struct else None
        if field is None:
            return None
        offset += field.offset
        struct = layout.structs.get(field.ctype.name)
    assert field is not None  # split() gives at least one part
    return Element(offset, field.ctype, field.count, field.array)


@lru_cache(maxsize=4096)
def _field(layout: Layout, path: str) -> FieldRef:
    struct: Struct | None = layout.region
    offset = 0
    ref: FieldRef | None = None
    for part in path.split("."):
        match = re.fullmatch(r"([A-Za-z_]\w*)(?:\[(\d{1,9})\])?", part)
        if match is None:
            raise FieldError(
                f"{part!r} is not a field",
                field=path,
                hint="write it like procs[3].used[0].total",
            )
        if struct is None or (ref is not None and ref.count != 1):
            raise FieldError(
                f"nothing named {part!r} lies below {ref.path if ref else ''}", field=path
            )
        name, index = match[1], match[2]
        field = struct.get(name)
        if field is None:
            names = ", ".join(f.logical for f in struct.fields if not f.padding)
            raise FieldError(
                f"{struct.name} of {layout.name} has no {name!r}",
                field=path,
                hint=f"it has {names}",
            )
        offset += field.offset
        count = field.count
        if index is not None:
            if not field.array or int(index) >= field.count:
                raise FieldError(
                    f"{name} has no element {index} (it has {field.count})", field=path
                )
            offset += int(index) * field.ctype.size
            count = 1
        ref = FieldRef(path, offset, field.ctype, count, field.type)
        struct = layout.structs.get(field.ctype.name)
    assert ref is not None  # split() gives at least one part
    return ref
