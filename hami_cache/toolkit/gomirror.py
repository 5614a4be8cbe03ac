"""A Go mirror of the region as a shape: the struct declarations of one file, placed by Go's rules.

Reads declarations only: ``type``, ``const``, nested and embedded structs, arrays. Functions are
stepped over.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from hami_cache.spec.layout import CType, Struct
from hami_cache.toolkit import gotypes
from hami_cache.toolkit.ctokens import CLOSE, NAME, OPEN, past_brackets, read_text
from hami_cache.toolkit.expressions import NotConstantError, evaluate
from hami_cache.toolkit.shape import (
    LP64_MACHINES,
    REGION,
    Shape,
    ShapeError,
    choose_region,
    element_of,
    reachable,
)  # fmt: skip

JUDGE = "Go's rules for amd64 and arm64"
MAX_DEPTH = 16
MAX_BYTES = 1 << 40

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
      | (?P<text>`[^`]*`|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>\d[\w.]*)
      | (?P<mark><<|>>|&\^|&&|\|\||[=!<>:]=|\.\.\.|[^\s\w])
      | (?P<line>\n)""",
    re.VERBOSE | re.DOTALL,
)
_ENDS_STATEMENT = re.compile(r"[\w)\]}`\"']$")
"""Go puts a semicolon at the end of a line whose last token ends so."""


def read_go(path: Path, *, struct: str = REGION) -> Shape:
    """The region that a Go file mirrors.

    Args:
        path: the file.
        struct: the struct's name; the default matches any style of it (``sharedRegionT``).

    Raises:
        ShapeError: no such struct, or something in it cannot be placed.
    """
    mirror = _Mirror(path, _tokens(read_text(path)))
    names = [n for n, body in mirror.types.items() if body[:1] == ["struct"]]
    name = choose_region(names, struct, path)
    region = mirror.struct(name)
    structs = reachable(region, mirror.structs)
    return Shape(path.name, region, structs, None, None, JUDGE, LP64_MACHINES, mirror=True)


def _tokens(text: str) -> list[str]:
    """Tokens without comments, semicolons where Go puts them by itself."""
    found: list[str] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if match.lastgroup == "comment":
            token = "\n" if "\n" in token else ""  # over several lines, it ends the first of them
        if token == "\n":
            if found and _ENDS_STATEMENT.search(found[-1]):
                found.append(";")
        elif token:
            found.append(token)
    return [*found, ";"]


class _Mirror:
    """The type and constant declarations of a file, placed when asked for.

    Attributes:
        types: each type's right-hand side, as tokens.
        constants: integer constants that could be evaluated.
        structs: those placed so far, by name.
    """

    def __init__(self, path: Path, tokens: Sequence[str]) -> None:
        self._path = path
        self._open: list[str] = []
        self.types: dict[str, list[str]] = {}
        self.constants: dict[str, int] = {}
        self.structs: dict[str, Struct] = {}
        for statement in _statements(tokens):
            if statement[0] in ("type", "const") and len(statement) > 2:
                inner = statement[1] == "("
                specs = _statements(statement[2:-1]) if inner else [statement[1:]]
                for spec in specs:
                    self._declare(statement[0], list(spec))

    def _declare(self, keyword: str, spec: list[str]) -> None:
        if keyword == "type":
            self.types[spec[0]] = (spec[2:] if spec[1:2] == ["="] else spec[1:]) or [""]
        elif "=" in spec:
            at = spec.index("=")
            # A text, iota, a sum of others: it matters only to an array that needs it.
            with contextlib.suppress(NotConstantError):
                self.constants[spec[0]] = evaluate(spec[at + 1 :], self.constants.get)

    def struct(self, name: str) -> Struct:
        """A declared struct."""
        if name not in self.structs:
            if name in self._open or len(self._open) > MAX_DEPTH:
                self._refuse(name, "the struct holds itself")
            self._open.append(name)
            self.structs[name] = self._place(name, self.types[name])
            self._open.pop()
        return self.structs[name]

    def _place(self, name: str, body: Sequence[str]) -> Struct:
        """A struct from ``struct { … }``."""
        if body[1:2] != ["{"] or body[-1] != "}" or name.count(".") > MAX_DEPTH:
            self._refuse(name, "the struct does not end, or is nested too deeply")
        members: list[gotypes.Member] = []
        for line in _statements(body[2:-1]):
            names, kind, embedded = self._member(line, name)
            where = f"{name}.{names[0]}"
            element, count, array = element_of(*self._type(kind, where))
            if count * element.size > MAX_BYTES:
                self._refuse(where, f"is larger than {MAX_BYTES} bytes")
            members += [gotypes.Member(n, element, count, array, embedded) for n in names]
        return gotypes.place(name, members, self.structs)

    def _type(self, tokens: Sequence[str], where: str) -> tuple[CType, list[int]]:
        """A type's element and its array bounds, outermost first, declared names followed."""
        dimensions: list[int] = []
        for _ in range(MAX_DEPTH):
            head = tokens[0] if tokens else ""
            end = past_brackets(tokens, 0)
            if head == "[" and end > 2:
                dimensions.append(self._bound(tokens[1 : end - 1], where))
                tokens = tokens[end:]
            elif head in self.types and len(tokens) == 1 and self.types[head][0] != "struct":
                tokens = self.types[head]
            else:
                break
        return self._element(tokens, where), dimensions

    def _element(self, tokens: Sequence[str], where: str) -> CType:
        """A type that is no array."""
        head = tokens[0] if tokens else ""
        if head == "struct":
            self.structs[where] = self._place(where, tokens)
            return _as_type(self.structs[where])
        if len(tokens) == 1 and head in self.types:
            if self.types[head][0] != "struct":
                self._refuse(where, f"its type {head} goes round in a circle")
            return _as_type(self.struct(head))
        if head in ("*", "func", "map", "chan"):
            return gotypes.POINTER
        if head == "[":
            return gotypes.SLICE
        written = "".join(tokens)
        if written not in gotypes.BUILTIN:
            self._refuse(where, f"its type {written} is not declared in this file")
        return gotypes.BUILTIN[written]

    def _member(self, line: Sequence[str], where: str) -> tuple[list[str], list[str], bool]:
        """A member line's names, its type, and whether it is embedded (called by its type)."""
        tokens = [t for t in line if t[0] not in '`"']  # without its tag
        names = list(itertools.takewhile(lambda t: t == "," or NAME.fullmatch(t), tokens))
        # The word after the last comma is the last name; one right after that is already the type.
        last = len(names) - 1 - names[::-1].index(",") if "," in names else -1
        kind = tokens[last + 2 :]
        if names and kind and kind[0] != ".":
            return [t for t in names[: last + 2] if t != ","], kind, False
        words = [t for t in tokens if NAME.fullmatch(t)]
        if "," in tokens or not words:
            self._refuse(where, f"cannot read its member {' '.join(line)!r:.60}")
        return words[-1:], tokens, True

    def _bound(self, tokens: Sequence[str], where: str) -> int:
        try:
            number = evaluate(tokens, self.constants.get)
        except NotConstantError as error:
            self._refuse(where, f"its array bound: {error}")
        if number < 0:
            self._refuse(where, f"its array bound is {number}")
        return number

    def _refuse(self, where: str, message: str) -> NoReturn:
        raise ShapeError(message, path=self._path, field=where)


def _as_type(struct: Struct) -> CType:
    return CType(struct.name, struct.sizeof, struct.alignof, "struct")


def _statements(tokens: Sequence[str]) -> list[list[str]]:
    """Cut at semicolons outside brackets; no statement is empty."""
    found: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in OPEN) - (token in CLOSE)
        if token == ";" and depth <= 0:
            found.append([])
        else:
            found[-1].append(token)
    return [statement for statement in found if statement]
