"""Structs, typedefs and enumerations out of a C header.

A parser of our own and not a C front end, because it need not understand what it does not use:
unknown types (``CUcontext``), inline functions, GNU extensions and macros around the struct are
stepped over. A declaration beyond it is remembered with the reason, which only matters if the
region needs that declaration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hami_cache.toolkit.cpieces import Piece, pieces
from hami_cache.toolkit.cpreprocess import Source
from hami_cache.toolkit.ctokens import NAME, past_brackets
from hami_cache.toolkit.expressions import NotConstantError, evaluate

QUALIFIERS = frozenset({"const", "volatile", "restrict", "__restrict", "_Atomic"})
SHOWN_QUALIFIERS = ("_Atomic", "volatile", "const")
WORDS = ("unsigned", "signed", "short", "long", "char", "int", "float", "double")
TAGGED = frozenset({"struct", "union", "enum"})
MAX_DEPTH = 16

Bounds = tuple[tuple[str, ...], ...]
"""Array bounds, outermost first, as tokens: only a compiler knows every constant."""


@dataclass(frozen=True, slots=True)
class TypeUse:
    """A type where it is used.

    Attributes:
        base: the name to look up: ``int``, ``uint64_t``, ``struct tag``; ``struct #1`` has no name.
        qualifiers: those that matter to a reader, as ``_Atomic ``: empty, or with a space at the
            end.
    """

    base: str
    qualifiers: str = ""
    pointer: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a struct."""

    name: str
    type: TypeUse
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class StructDecl:
    """A struct's members in order; `bent` as in `Piece`."""

    members: tuple[Member, ...]
    bent: bool


@dataclass(frozen=True, slots=True)
class Alias:
    """What a typedef stands for."""

    type: TypeUse
    bounds: Bounds


@dataclass
class Declarations:
    """What a header declares.

    Attributes:
        structs: by ``struct tag`` or ``struct #1``.
        aliases: typedefs.
        constants: of enumerations.
        failures: why the declaration of a name was not understood.
        pieces: the declarations in order, each with the names that it declares.
    """

    structs: dict[str, StructDecl] = field(default_factory=dict)
    aliases: dict[str, Alias] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    pieces: list[tuple[frozenset[str], Piece]] = field(default_factory=list)

    def struct_names(self) -> list[str]:
        """Every name of a struct that people can ask for: typedefs first, then tags."""
        names = [n for n, a in self.aliases.items() if a.type.base in self.structs]
        tags = [n.removeprefix("struct ") for n in self.structs if "#" not in n]
        return list(dict.fromkeys([*names, *tags]))

    def title(self, base: str) -> str:
        """The name of a struct for people: its typedef, its tag, or a number."""
        for name, alias in self.aliases.items():
            if alias.type.base == base and not alias.bounds and not alias.type.pointer:
                return name
        return base.removeprefix("struct ").replace("#", "unnamed_")

    def failure(self, base: str) -> str | None:
        """Why a declared type was not understood; None if it was, or is not declared."""
        reason = self.failures.get(base.split(" ")[-1])
        return f"its type {base} is not understood: {reason}" if reason else None


class NotUnderstoodError(Exception):
    """A declaration beyond this parser; the message says what."""


def declarations(source: Source) -> Declarations:
    """Parse the declarations of a preprocessed header."""
    found = Declarations()
    for piece in pieces(source.tokens):
        parser = _Parser(piece, found)
        try:
            parser.declaration()
        except NotUnderstoodError as reason:
            for name in parser.declared | {_last_name(piece.clean)}:
                found.failures[name] = f"{reason} ({piece.file.name}:{piece.line})"
        else:
            found.pieces.append((frozenset(parser.declared), piece))
    return found


class _Parser:
    """One declaration, into the declarations found so far."""

    def __init__(self, piece: Piece, found: Declarations) -> None:
        self._texts = piece.clean
        self._bent = piece.bent
        self._at = 0
        self._depth = 0
        self._found = found
        self.declared: set[str] = set()

    def declaration(self) -> None:
        if not self._texts:
            return  # a pragma
        typedef = self._accept("typedef")
        use = self._type()
        while self._peek() not in (";", ""):
            name, used, bounds = self._declarator(use)
            if typedef:
                self.declared.add(name)
                self._found.aliases[name] = Alias(used, bounds)
            self._accept(",")

    def _peek(self) -> str:
        return self._texts[self._at] if self._at < len(self._texts) else ""

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _accept(self, token: str) -> bool:
        found = self._peek() == token
        self._at += found
        return found

    def _name(self) -> str:
        token = self._take()
        if not NAME.fullmatch(token):
            raise NotUnderstoodError(f"{token!r} where a name was expected: a macro?")
        return token

    def _type(self) -> TypeUse:
        """Qualifiers and a type, in any order."""
        qualifiers: list[str] = []
        words: list[str] = []
        base = ""
        while True:
            token = self._peek()
            if token in QUALIFIERS:
                qualifiers.append(self._take())
            elif token in WORDS and not base:
                words.append(self._take())
            elif token in TAGGED and not base and not words:
                base = self._tagged(self._take())
            elif NAME.fullmatch(token) and not base and not words:
                base = self._take()
            else:
                break
        base = base or _builtin(words)
        return TypeUse(base, "".join(f"{q} " for q in SHOWN_QUALIFIERS if q in qualifiers))

    def _tagged(self, keyword: str) -> str:
        """A struct, union or enumeration from its tag on: the name to look it up by."""
        tag = self._take() if NAME.fullmatch(self._peek()) else ""
        if self._peek() != "{":
            return "int" if keyword == "enum" else f"{keyword} {tag}"
        name = f"{keyword} {tag}" if tag else f"{keyword} #{len(self._found.structs)}"
        self.declared.add(tag)
        if keyword == "union":
            raise NotUnderstoodError("a union, of which no one can say what it holds")
        if keyword == "enum":
            self._enumeration()
            return "int"
        # Entered before its members are read, so that an anonymous struct among them gets another
        # number.
        self._found.structs[name] = StructDecl((), self._bent)
        self._found.structs[name] = StructDecl(self._members(), self._bent)
        return name

    def _members(self) -> tuple[Member, ...]:
        self._take()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NotUnderstoodError("structs nested too deeply")
        members: list[Member] = []
        while not self._accept("}"):
            use = self._type()
            if self._peek() == ";":
                raise NotUnderstoodError(f"a member without a name, of type {use.base}")
            members.append(Member(*self._declarator(use)))
            while self._accept(","):
                members.append(Member(*self._declarator(use)))
            if not self._accept(";"):
                raise NotUnderstoodError(f"{self._peek()!r} after {members[-1].name}: a macro?")
        if len({m.name for m in members}) != len(members):
            raise NotUnderstoodError("two members with the same name")
        self._depth -= 1
        return tuple(members)

    def _declarator(self, use: TypeUse) -> tuple[str, TypeUse, Bounds]:
        pointer = False
        while self._peek() == "*" or self._peek() in QUALIFIERS:
            pointer = self._take() == "*" or pointer
        name = self._name()
        bounds = []
        while self._peek() == "[":
            end = past_brackets(self._texts, self._at)
            bounds.append(tuple(self._texts[self._at + 1 : end - 1]))
            self._at = end
        if self._peek() == ":":
            raise NotUnderstoodError(f"{name} is a bit field, which has no byte offset")
        if self._peek() not in (";", ","):
            raise NotUnderstoodError(f"{self._peek()!r} after {name}: a macro?")
        if pointer:
            use = TypeUse(use.base, use.qualifiers, pointer=True)
        return name, use, tuple(bounds)

    def _enumeration(self) -> None:
        self._take()
        upcoming = 0
        while not self._accept("}"):
            name = self._name()
            if self._accept("="):
                upcoming = self._constant(name)
            self._found.constants[name] = upcoming
            self.declared.add(name)
            upcoming += 1
            self._accept(",")

    def _constant(self, name: str) -> int:
        start = self._at
        while self._peek() not in (",", "}", ""):
            self._at = past_brackets(self._texts, self._at) if self._peek() == "(" else self._at + 1
        try:
            return evaluate(self._texts[start : self._at], self._found.constants.get)
        except NotConstantError as error:
            raise NotUnderstoodError(f"the value of {name}: {error}") from None


def _builtin(words: Sequence[str]) -> str:
    """``long unsigned int`` and its like under the names that the layouts use."""
    if not words:
        raise NotUnderstoodError("a type is missing")
    rest = sorted((w for w in words if w not in ("signed", "unsigned")), key=WORDS.index)
    if len(rest) > 1 and "int" in rest:
        rest.remove("int")
    name = " ".join(rest)
    if "unsigned" in words:
        return f"unsigned {name or 'int'}"
    return "signed char" if "signed" in words and name == "char" else name or "int"


def _last_name(texts: Sequence[str]) -> str:
    """The name that a declaration beyond us most likely declares: the last one in it."""
    return next((t for t in reversed(texts) if NAME.fullmatch(t)), "")
