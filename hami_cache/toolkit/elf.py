"""A built library as a shape: the struct and its offsets as debug information records them.

pyelftools reads the format; it comes with the extra ``elf``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hami_cache.errors import ConfigError
from hami_cache.spec.layout import CType, Field, Kind, Struct
from hami_cache.toolkit.shape import (
    POINTER_SIZE,
    REGION,
    Shape,
    ShapeError,
    choose_region,
    element_of,
    is_padding,
)  # fmt: skip

MAX_FILE_BYTES = 1 << 30
MAX_DEPTH = 32
MAX_UNION_DEPTH = 3
SEMAPHORE = "sem_t"
"""A union in one C library and a struct in another, but one thing to a reader."""

_QUALIFIERS = {
    "DW_TAG_atomic_type": "_Atomic ",
    "DW_TAG_volatile_type": "volatile ",
    "DW_TAG_const_type": "const ",
    "DW_TAG_restrict_type": "",
}
_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
_SIGNED = frozenset({0x05, 0x06, 0x0D})  # DW_ATE_signed, signed_char, signed_fixed
_UNSIGNED = frozenset({0x02, 0x07, 0x08})  # DW_ATE_boolean, unsigned, unsigned_char
_BUILD_HINT = "build it with -g (CMake: -DCMAKE_BUILD_TYPE=RelWithDebInfo) and do not strip it"


def read_elf(path: Path, *, struct: str = REGION) -> Shape:
    """The region that a shared library, program or object file was compiled with.

    Args:
        path: an ELF file with debug information, or the file its debug information was split into.
        struct: the region's typedef or tag.

    Raises:
        ShapeError: not an ELF file of a 64-bit little-endian machine, no debug information, no such
            struct.
        ConfigError: pyelftools is not installed.
    """
    try:
        from elftools.common.exceptions import DWARFError, ELFError
        from elftools.elf.elffile import ELFFile
    except ImportError:
        raise ConfigError(
            "reading ELF files needs pyelftools", hint="pip install 'hami-cache[elf]'"
        ) from None
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE_BYTES:
                raise ShapeError(f"is larger than {MAX_FILE_BYTES} bytes", path=path)
            elf = ELFFile(file)
            _refuse_impossible_sections(elf, size)
            return _read(elf, path, struct)
    except ShapeError:
        raise
    except OSError as error:
        raise ShapeError(f"cannot be read: {error.strerror}", path=path) from None
    except (ELFError, DWARFError) as error:
        raise ShapeError(f"is not a sound ELF file: {error}", path=path) from None
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError,
            TypeError, ValueError) as error:  # fmt: skip
        # pyelftools walks damaged debug information until something gives way; what does is not the
        # point.
        raise ShapeError(f"its debug information is damaged ({error!r:.80})", path=path) from None


def _refuse_impossible_sections(elf: Any, size: int) -> None:
    """Sections that end beyond the file, or unpack to more than any library has."""
    for section in elf.iter_sections():
        if section["sh_type"] not in ("SHT_NULL", "SHT_NOBITS"):
            end = section["sh_offset"] + section["sh_size"]
            if end > size or section.data_size > MAX_FILE_BYTES:
                raise ValueError(f"section {section.name} is larger than the file")


def _read(elf: Any, path: Path, struct: str) -> Shape:
    if elf.elfclass != 64 or not elf.little_endian:
        raise ShapeError(
            f"is of a {elf.elfclass}-bit {'little' if elf.little_endian else 'big'}-endian machine",
            path=path,
            hint="layouts are of 64-bit little-endian machines",
        )
    if not elf.has_dwarf_info(strict=True):
        raise ShapeError(f"has no debug information ({_build(elf)})", path=path, hint=_BUILD_HINT)
    units = list(elf.get_dwarf_info().iter_CUs())
    declared: dict[str, Any] = {}
    for unit in units:
        for name, die in _structs(unit):
            declared.setdefault(name, die)
        if struct in declared:
            break
    name = choose_region(list(declared), struct, path)
    reader = _Reader(path)
    region = reader.struct(declared[name], name, 0)
    producer = declared[name].cu.get_top_DIE().attributes.get("DW_AT_producer")
    judge = producer.value.decode(errors="replace").split(" -")[0] if producer else "a compiler"
    machine = _MACHINES.get(elf["e_machine"], str(elf["e_machine"]))
    judge = f"{judge} for {machine}"
    return Shape(path.name, region, reader.structs, None, None, judge, (machine,))


def _build(elf: Any) -> str:
    """What identifies a build, for an error about it."""
    note = elf.get_section_by_name(".note.gnu.build-id")
    for entry in note.iter_notes() if note is not None else ():
        if entry["n_type"] == "NT_GNU_BUILD_ID":
            return f"build id {entry['n_desc']}, stripped or compiled without -g"
    return "no build id either, stripped or compiled without -g"


def _structs(unit: Any) -> Iterator[tuple[str, Any]]:
    """The complete structs that a compilation unit gives a name: by typedef, and by tag."""
    for die in _children(unit.get_top_DIE()):
        name = _name(die)
        if die.tag == "DW_TAG_typedef" and "DW_AT_type" in die.attributes:
            die = die.get_DIE_from_attribute("DW_AT_type")
        if name and die.tag == "DW_TAG_structure_type" and "DW_AT_byte_size" in die.attributes:
            yield name, die


def _children(die: Any) -> Iterator[Any]:
    """The entries below one; damaged links between them could lead round in a circle."""
    end = die.offset
    for child in die.iter_children():
        if child.offset <= end:
            raise ValueError("entries that lead back")
        end = child.offset
        yield child


class _Reader:
    """Structs out of debug entries.

    Attributes:
        structs: those read so far by name, inner ones first.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.structs: dict[str, Struct] = {}

    def struct(self, die: Any, name: str, depth: int) -> Struct:
        """One struct; what it holds lands in `structs` before it."""
        if name in self.structs:
            return self.structs[name]
        if depth > MAX_DEPTH:
            raise ShapeError(f"{name} is nested too deeply", path=self._path)
        fields = [
            self._field(member, name, depth)
            for member in _children(die)
            if member.tag == "DW_TAG_member"
        ]
        if not fields:
            raise ShapeError(f"{name} has no members", path=self._path)
        align = max(_number(die, "DW_AT_alignment", 1), *(f.ctype.align for f in fields))
        self.structs[name] = Struct(name, _number(die, "DW_AT_byte_size"), align, tuple(fields))
        return self.structs[name]

    def _field(self, member: Any, parent: str, depth: int) -> Field:
        name = _name(member)
        if not name or {"DW_AT_bit_size", "DW_AT_data_bit_offset"} & member.attributes.keys():
            raise ShapeError(
                f"{parent} has a bit field or a member without a name", path=self._path, field=name
            )
        qualifiers, dimensions, title, die = self._unwrap(member)
        ctype, count, array = element_of(
            self._element(die, title, f"{parent}_{name}", depth), dimensions
        )
        offset = _number(member, "DW_AT_data_member_location", 0)
        spelling = qualifiers + ctype.name
        return Field(name, spelling, ctype, offset, count, array, name, is_padding(name))

    def _unwrap(self, die: Any) -> tuple[str, list[int], str, Any]:
        """Qualifiers, array bounds, the typedef's name if any, and what it all stands for."""
        qualifiers, title = "", ""
        dimensions: list[int] = []
        for _ in range(MAX_DEPTH):
            die = die.get_DIE_from_attribute("DW_AT_type")
            if die.tag in _QUALIFIERS:
                qualifiers += _QUALIFIERS[die.tag] if not title else ""
            elif die.tag == "DW_TAG_typedef":
                title = title or _name(die)
            elif die.tag == "DW_TAG_array_type":
                dimensions += [_count(c) for c in _children(die)
                               if c.tag == "DW_TAG_subrange_type"]  # fmt: skip
                title = ""
            else:
                return qualifiers, dimensions, title, die
            if "DW_AT_type" not in die.attributes:
                break
        raise ShapeError("a type that leads nowhere", path=self._path, field=title or None)

    def _element(self, die: Any, title: str, fallback: str, depth: int) -> CType:
        """The type of one element."""
        name = title or _name(die) or fallback
        if die.tag == "DW_TAG_structure_type" and name != SEMAPHORE:
            struct = self.struct(die, name, depth + 1)
            return CType(struct.name, struct.sizeof, struct.alignof, "struct")
        if die.tag == "DW_TAG_pointer_type":
            return CType(f"{title or 'void'} *", POINTER_SIZE, POINTER_SIZE, "unsigned")
        size = _number(die, "DW_AT_byte_size")
        return CType(_c_name(name), size, self._align(die, size, 0), _kind(die, name))

    def _align(self, die: Any, size: int, depth: int) -> int:
        """The alignment of a type that is no struct of ours: a number's size, a union's largest."""
        if die.tag in ("DW_TAG_union_type", "DW_TAG_structure_type"):
            parts = [self._unwrap(m)[3] for m in _children(die) if m.tag == "DW_TAG_member"]
            sizes = [_number(p, "DW_AT_byte_size", POINTER_SIZE) for p in parts]
            inner = [
                self._align(p, s, depth + 1) for p, s in zip(parts, sizes, strict=True)
            ] if depth < MAX_UNION_DEPTH else []  # fmt: skip
            return max([_number(die, "DW_AT_alignment", 1), *inner])
        return _number(die, "DW_AT_alignment", size)


def _kind(die: Any, name: str) -> Kind:
    if name == SEMAPHORE:
        return "semaphore"
    encoding = _number(die, "DW_AT_encoding", 0)
    if die.tag == "DW_TAG_enumeration_type" or encoding in _UNSIGNED:
        return "unsigned"
    return "signed" if encoding in _SIGNED else "text"


def _c_name(name: str) -> str:
    """DWARF's ``long unsigned int`` under the name that the layouts use."""
    words = name.split()
    if "unsigned" in words:
        rest = [w for w in words if w not in ("unsigned", "int")]
        return " ".join(["unsigned", *(rest or ["int"])])
    return " ".join(w for w in words if w != "int") or name


def _name(die: Any) -> str:
    attribute = die.attributes.get("DW_AT_name")
    return attribute.value.decode(errors="replace") if attribute else ""


def _count(subrange: Any) -> int:
    if "DW_AT_count" in subrange.attributes:
        return _number(subrange, "DW_AT_count")
    return _number(subrange, "DW_AT_upper_bound", -1) + 1


def _number(die: Any, attribute: str, default: int | None = None) -> int:
    found = die.attributes.get(attribute)
    value = default if found is None else found.value
    if not isinstance(value, int) or not -1 <= value < 1 << 40:
        raise ValueError(f"{die.tag} without a usable {attribute}")
    return value
