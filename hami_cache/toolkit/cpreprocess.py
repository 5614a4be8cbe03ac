"""A C header with its conditionals decided, includes beside it followed, macros expanded.

The part of C's preprocessor that struct declarations need. Includes that are not found (``cuda.h``,
the system's) are left out: what they would have declared is either a type that every C compiler
knows or reported as missing by whoever needs it. Function-like macros are not expanded; inside a
struct one is an error of the parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hami_cache.toolkit.ctokens import NAME, Token, logical_lines, past_brackets, read_text, texts
from hami_cache.toolkit.expressions import NotConstantError, evaluate
from hami_cache.toolkit.shape import ShapeError

MAX_TOKENS = 1 << 20
MAX_INCLUDES = 64
MAX_MACRO_DEPTH = 32
MAX_EXPANSIONS = 1 << 17
"""Macros replaced in a whole header; a few that double each other would go on for years."""

PREDEFINED: Mapping[str, str] = {
    "__linux__": "1", "__LP64__": "1", "__GNUC__": "4", "__STDC__": "1",
    "__STDC_VERSION__": "201112L",
}  # fmt: skip
"""What a C compiler on the layouts' machines defines and headers commonly ask for."""


@dataclass
class Source:
    """What preprocessing a header leaves.

    Attributes:
        path: the header.
        tokens: of the declarations, macros expanded.
        macros: object-like macros and their replacement, as they stand at the end.
        functions: names of macros with arguments.
    """

    path: Path
    tokens: list[Token] = field(default_factory=list)
    macros: dict[str, list[str]] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    _expansions: int = 0

    def defined(self, name: str) -> bool:
        """Whether ``#ifdef`` is true."""
        return name in self.macros or name in self.functions

    def constant(self, name: str) -> int | None:
        """The integer that a macro stands for, or None."""
        if name not in self.macros:
            return None
        try:
            return evaluate(list(self.expand([name])), lambda _: None)
        except NotConstantError:
            return None

    def expand(self, texts: Iterable[str]) -> Iterator[str]:
        """Replace object-like macros, theirs too; a macro inside its own replacement stays.

        Raises:
            ShapeError: the macros multiply without end.
        """
        work = [("", iter(texts))]
        while work:
            text = next(work[-1][1], None)
            if text is None:
                work.pop()
                continue
            body = self.macros.get(text)
            inside = any(text == name for name, _ in work) or len(work) > MAX_MACRO_DEPTH
            if body is None or inside:
                yield text
                continue
            self._expansions += 1
            if self._expansions > MAX_EXPANSIONS:
                raise ShapeError(f"the macro {text} expands without end", path=self.path)
            work.append((text, iter(body)))


def read(
    path: Path, folders: Sequence[Path] = (), defines: Mapping[str, str] | None = None
) -> Source:
    """Preprocess a header.

    Args:
        path: the header.
        folders: where includes are looked for, after the including file's own folder.
        defines: macros given from outside, as a compiler's ``-D``.

    Raises:
        ShapeError: unreadable, too large, a conditional that cannot be decided.
    """
    reader = _Reader(path, folders)
    for name, value in {**PREDEFINED, **(defines or {})}.items():
        reader.source.macros[name] = texts(value)
    reader.file(path)
    return reader.source


class _Reader:
    """The state that includes share."""

    def __init__(self, path: Path, folders: Sequence[Path]) -> None:
        self.source = Source(path)
        self._folders = folders
        self._seen: set[Path] = set()

    def file(self, path: Path) -> None:
        resolved = path.resolve()
        if resolved in self._seen:
            return  # every header guards itself against a second reading
        self._seen.add(resolved)
        if len(self._seen) > MAX_INCLUDES:
            raise ShapeError(f"includes more than {MAX_INCLUDES} files", path=path)
        text = read_text(path)
        conditions = _Conditions(self.source, path)
        for number, line in logical_lines(text):
            match = re.match(r"\s*#\s*(\w*)(.*)", line)
            if match is None:
                if conditions.active:
                    self._add(line, path, number)
            elif not conditions.directive(match[1], match[2], number) and conditions.active:
                self._directive(match[1], match[2].strip(), path, number)
        conditions.close()

    def _directive(self, name: str, rest: str, path: Path, number: int) -> None:
        if name == "define":
            self._define(rest)
        elif name == "undef":
            self._undefine(rest)
        elif name == "include":
            self._include(rest, path)
        elif name == "pragma":
            self.source.tokens.append(Token(f"#pragma {' '.join(rest.split())}", path, number))

    def _define(self, rest: str) -> None:
        macro = re.match(r"([A-Za-z_]\w*)(\(?)(.*)", rest)
        if macro is None:
            return
        self._undefine(macro[1])
        # A parenthesis right after the name makes a function of it.
        if macro[2]:
            self.source.functions.add(macro[1])
        else:
            self.source.macros[macro[1]] = texts(macro[3])

    def _undefine(self, name: str) -> None:
        self.source.macros.pop(name, None)
        self.source.functions.discard(name)

    def _include(self, rest: str, path: Path) -> None:
        match = re.match(r'"([^"]+)"|<([^>]+)>', rest)
        if match is None:
            return
        name = match[1] or match[2]
        for folder in (path.parent, *self._folders) if match[1] else self._folders:
            if (folder / name).is_file():
                self.file(folder / name)
                return

    def _add(self, line: str, path: Path, number: int) -> None:
        for text in self.source.expand(texts(line)):
            self.source.tokens.append(Token(text, path, number))
            if len(self.source.tokens) > MAX_TOKENS:
                raise ShapeError(f"has more than {MAX_TOKENS} tokens", path=path)


class _Conditions:
    """``#if`` and its companions of one file."""

    def __init__(self, source: Source, path: Path) -> None:
        self._source = source
        self._path = path
        self._open: list[_Condition] = []

    @property
    def active(self) -> bool:
        """Whether the lines here count."""
        return not self._open or self._open[-1].active

    def directive(self, name: str, rest: str, number: int) -> bool:
        """Handle a conditional directive; False for any other."""
        if name in ("if", "ifdef", "ifndef"):
            # Inside an inactive branch nothing is evaluated: it may not even be an expression.
            truth = self.active and self._truth(name, rest, number)
            self._open.append(_Condition(active=truth, taken=truth))
        elif name in ("elif", "else", "endif"):
            if not self._open:
                raise ShapeError(f"line {number}: #{name} without #if", path=self._path)
            self._later(name, rest, number)
        else:
            return False
        return True

    def close(self) -> None:
        if self._open:
            raise ShapeError("ends inside #if", path=self._path, hint="is the file cut off?")

    def _later(self, name: str, rest: str, number: int) -> None:
        condition = self._open.pop()
        if name == "endif":
            return
        open_still = self.active and not condition.taken
        truth = open_still and (name == "else" or self._truth("if", rest, number))
        self._open.append(_Condition(active=truth, taken=truth or condition.taken))

    def _truth(self, name: str, rest: str, number: int) -> bool:
        if name != "if":
            return self._source.defined(rest.strip()) == (name == "ifdef")
        try:
            return evaluate(list(self._condition(texts(rest))), lambda _: 0) != 0
        except NotConstantError as error:
            raise ShapeError(
                f"line {number}: cannot decide #if {rest.strip()}: {error}", path=self._path
            ) from None

    def _condition(self, words: list[str]) -> Iterator[str]:
        """A condition with ``defined`` answered; calls, as ``__has_include(…)``, are false."""
        at = 0
        while at < len(words):
            if words[at] == "defined":
                bracket = words[at + 1 : at + 2] == ["("]
                name = words[at + 1 + bracket] if at + 1 + bracket < len(words) else ""
                yield str(int(self._source.defined(name)))
                at += 4 if bracket else 2
            elif NAME.fullmatch(words[at]) and words[at + 1 : at + 2] == ["("]:
                yield "0"
                at = past_brackets(words, at + 1)
            else:
                yield from self._source.expand([words[at]])
                at += 1


@dataclass(frozen=True, slots=True)
class _Condition:
    """One open ``#if``: whether its present branch counts, and whether one has been taken."""

    active: bool
    taken: bool
