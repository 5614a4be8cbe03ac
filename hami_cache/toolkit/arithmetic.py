"""Offsets without a compiler: C's rules on LP64 Linux applied to parsed declarations.

Refuses what only a compiler can tell: attributes, ``#pragma pack``, ``sizeof`` in an array bound,
types that differ from machine to machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from hami_cache.spec.layout import C_INTEGERS, CType, Field, Kind, Struct, align_up
from hami_cache.toolkit.cdecl import Bounds, Declarations, Member, StructDecl, TypeUse
from hami_cache.toolkit.expressions import NotConstantError, evaluate
from hami_cache.toolkit.shape import POINTER_SIZE, ShapeError, element_of, is_padding

COMPILER_HINT = "a C compiler could tell: install one, or name it with --cc"
MAX_ALIASES = 64
MAX_NESTING = 32
MAX_BYTES = 1 << 40

_MORE_INTEGERS: Mapping[str, tuple[int, Kind]] = {
    "signed char": (1, "signed"), "unsigned char": (1, "unsigned"), "bool": (1, "unsigned"),
    "_Bool": (1, "unsigned"), "short": (2, "signed"), "unsigned short": (2, "unsigned"),
    "long long": (8, "signed"), "unsigned long long": (8, "unsigned"), "ssize_t": (8, "signed"),
    "ptrdiff_t": (8, "signed"), "intptr_t": (8, "signed"), "uintptr_t": (8, "unsigned"),
    "time_t": (8, "signed"), "off_t": (8, "signed"), "uid_t": (4, "unsigned"),
    "gid_t": (4, "unsigned"), "atomic_int": (4, "signed"), "atomic_uint": (4, "unsigned"),
    "atomic_size_t": (8, "unsigned"),
}  # fmt: skip

KNOWN_TYPES: Mapping[str, CType] = {
    **{
        n: CType(n, size, size, kind)
        for n, (size, kind) in {**C_INTEGERS, **_MORE_INTEGERS}.items()
    },
    "float": CType("float", 4, 4, "text"),
    "double": CType("double", 8, 8, "text"),
    "sem_t": CType("sem_t", 32, 8, "semaphore"),  # glibc's on 64-bit machines
}
"""Types that no header of HAMi-core's declares, the same on x86_64 and aarch64."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A member's type with its typedefs followed.

    Attributes:
        name: the type to show: a typedef if nothing is lost by stopping at it, else what it stands
            for.
        base: what it stands for in the end: a builtin, a type from outside, or a struct of the
            header.
        bounds: all array bounds, outermost first.
        text: the innermost bound is a typedef's (``typedef char uuid[96]``) and belongs to the
            element.
    """

    name: str
    base: str
    pointer: bool
    bounds: Bounds
    text: bool = False


def resolve(found: Declarations, member: Member) -> Resolved:
    """Follow a member's typedefs.

    Raises:
        NotConstantError: they go round in a circle.
    """
    use, bounds, name = member.type, member.bounds, member.type.base
    for _ in range(MAX_ALIASES):
        if use.pointer:
            return Resolved(f"{use.base} *", use.base, True, bounds)
        alias = found.aliases.get(use.base)
        if alias is None:
            return Resolved(name, use.base, False, bounds)
        bounds = (*bounds, *alias.bounds)
        if len(alias.bounds) == 1 and _is_byte(alias.type):
            return Resolved(use.base, alias.type.base, False, bounds, text=True)
        use = alias.type
        if alias.bounds or use.base in found.structs:
            name = use.base
    raise NotConstantError(f"the typedef {member.type.base} goes round in a circle")


def _is_byte(use: TypeUse) -> bool:
    known = KNOWN_TYPES.get(use.base)
    return known is not None and known.size == 1 and not use.pointer


class Arithmetic:
    """Places the structs of a header.

    Args:
        found: the header's declarations.
        source: the header, for errors.
    """

    def __init__(self, found: Declarations, source: object) -> None:
        self._found = found
        self._source = source
        self._open: list[str] = []
        self.structs: dict[str, Struct] = {}

    def place(self, base: str) -> Struct:
        """A struct and, into `structs`, all that it holds.

        Raises:
            ShapeError: something in it needs a compiler, or is not declared.
        """
        title = self._found.title(base)
        if title in self.structs:
            return self.structs[title]
        if base in self._open or len(self._open) > MAX_NESTING:
            raise ShapeError(f"{title} holds itself, or too much", path=self._source)
        self._open.append(base)
        declared = self._found.structs[base]
        self._refuse_bent(declared, title)
        fields: list[Field] = []
        for member in declared.members:
            ctype, count, array = self._element(member, title)
            end = fields[-1].end if fields else 0
            fields.append(field_of(member, ctype, align_up(end, ctype.align), count, array))
            if fields[-1].end > MAX_BYTES:
                self._refuse(title, member.name, f"ends past {MAX_BYTES} bytes", "check its bounds")
        self._open.pop()
        if not fields:
            raise ShapeError(f"{title} has no members", path=self._source)
        align = max(f.ctype.align for f in fields)
        self.structs[title] = Struct(title, align_up(fields[-1].end, align), align, tuple(fields))
        return self.structs[title]

    def _element(self, member: Member, title: str) -> tuple[CType, int, bool]:
        try:
            resolved = resolve(self._found, member)
            numbers = [self._bound(bound) for bound in resolved.bounds]
        except NotConstantError as error:
            self._refuse(title, member.name, str(error), COMPILER_HINT)
        if resolved.pointer:
            pointer = CType(resolved.name, POINTER_SIZE, POINTER_SIZE, "unsigned")
            return element_of(pointer, numbers)
        if resolved.base in self._found.structs:
            inner = self.place(resolved.base)
            return element_of(CType(inner.name, inner.sizeof, inner.alignof, "struct"), numbers)
        known = KNOWN_TYPES.get(resolved.base)
        if known is None:
            reason = self._found.failure(resolved.base)
            message = reason or f"its type {resolved.base} is not declared"
            self._refuse(title, member.name, message, COMPILER_HINT)
        if resolved.text:
            return element_of(CType(resolved.name, numbers[-1], 1, "text"), numbers[:-1])
        return element_of(CType(resolved.name, known.size, known.align, known.kind), numbers)

    def _bound(self, bound: tuple[str, ...]) -> int:
        number = evaluate(bound, self._found.constants.get)
        if number < 1:
            raise NotConstantError(f"an array bound is {number}")
        return number

    def _refuse_bent(self, declared: StructDecl, title: str) -> None:
        if declared.bent:
            raise ShapeError(
                f"{title} has attributes or a #pragma that may move its fields",
                path=self._source,
                hint=COMPILER_HINT,
            )

    def _refuse(self, title: str, field: str, message: str, hint: str) -> NoReturn:
        raise ShapeError(message, path=self._source, field=f"{title}.{field}", hint=hint)


def field_of(member: Member, ctype: CType, offset: int, count: int, array: bool) -> Field:
    """A placed member as a field."""
    spelling = member.type.qualifiers + ctype.name
    padding = is_padding(member.name)
    return Field(member.name, spelling, ctype, offset, count, array, member.name, padding)
