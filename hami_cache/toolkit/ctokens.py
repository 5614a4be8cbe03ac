"""A C header as tokens: conditionals decided, includes beside it followed, macros expanded.

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

from hami_cache.toolkit.expressions import NotConstantError, evaluate
from hami_cache.toolkit.shape import ShapeError

MAX_FILE_BYTES = 4 << 20
MAX_TOKENS = 1 << 20
MAX_INCLUDES = 64
MAX_MACRO_DEPTH = 32
MAX_EXPANSIONS = 1 << 19
"""Macros replaced in a whole header; a few that double each other would go on for years."""

OPEN, CLOSE = frozenset("([{"), frozenset(")]}")

PREDEFINED: Mapping[str, str] = {
    "__linux__": "1", "__LP64__": "1", "__GNUC__": "4", "__STDC__": "1",
    "__STDC_VERSION__": "201112L",
}  # fmt: skip
"""What a C compiler on the layouts' machines defines and headers commonly ask for."""

_TOKEN = re.compile(
    r"""(?P<name>[A-Za-z_]\w*)
      | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
      | (?P<text>"(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*')
      | (?P<mark>\.\.\.|<<|>>|<=|>=|==|!=|&&|\|\||\#\#|->|[^\s\w])""",
    re.VERBOSE,
)
_COMMENT = re.compile(
    r"""//[^\n]* | /\*.*?(?:\*/|\Z) | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'""",
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Token:
    """One token and where it stands; a ``#pragma`` is one token that starts with ``#``."""

    text: str
    file: Path
    line: int


@dataclass
class Source:
    """What preprocessing a header leaves.

    Attributes:
        path: the header.
        tokens: of the declarations, macros expanded.
        macros: object-like macros and their replacement, as they stand at the end.
        missing: includes that were not found.
    """

    path: Path
    tokens: list[Token] = field(default_factory=list)
    macros: dict[str, list[str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    _expansions: int = 0

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
        reader.source.macros[name] = _texts(value)
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
        for number, line in _lines(text):
            match = re.match(r"\s*#\s*(\w*)(.*)", line)
            if match is None:
                if conditions.active:
                    self._add(line, path, number)
            elif not conditions.directive(match[1], match[2], number) and conditions.active:
                self._directive(match[1], match[2].strip(), path, number)
        conditions.close()

    def _directive(self, name: str, rest: str, path: Path, number: int) -> None:
        if name == "define":
            macro = re.match(r"([A-Za-z_]\w*)(\(?)(.*)", rest)
            # A parenthesis right after the name makes a function of it, which nothing here expands.
            if macro and not macro[2]:
                self.source.macros[macro[1]] = _texts(macro[3])
        elif name == "undef":
            self.source.macros.pop(rest, None)
        elif name == "include":
            self._include(rest, path)
        elif name == "pragma":
            self.source.tokens.append(Token(f"#pragma {rest}", path, number))

    def _include(self, rest: str, path: Path) -> None:
        match = re.match(r'"([^"]+)"|<([^>]+)>', rest)
        if match is None:
            return
        name = match[1] or match[2]
        for folder in (path.parent, *self._folders) if match[1] else self._folders:
            if (folder / name).is_file():
                self.file(folder / name)
                return
        self.source.missing.append(name)

    def _add(self, line: str, path: Path, number: int) -> None:
        for text in self.source.expand(_texts(line)):
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
        return all(c.active for c in self._open)

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
        outer = self.active
        truth = (
            outer and not condition.taken and (name == "else" or self._truth("if", rest, number))
        )
        self._open.append(_Condition(active=truth, taken=truth or condition.taken))

    def _truth(self, name: str, rest: str, number: int) -> bool:
        if name != "if":
            return (rest.strip() in self._source.macros) == (name == "ifdef")
        try:
            return evaluate(list(self._condition(_texts(rest))), lambda _: 0) != 0
        except NotConstantError as error:
            raise ShapeError(
                f"line {number}: cannot decide #if {rest.strip()}: {error}", path=self._path
            ) from None

    def _condition(self, texts: list[str]) -> Iterator[str]:
        """A condition with ``defined`` answered; calls, as ``__has_include(…)``, are false."""
        at = 0
        while at < len(texts):
            if texts[at] == "defined":
                bracket = texts[at + 1 : at + 2] == ["("]
                name = texts[at + 1 + bracket] if at + 1 + bracket < len(texts) else ""
                yield str(int(name in self._source.macros))
                at += 4 if bracket else 2
            elif _NAME.fullmatch(texts[at]) and texts[at + 1 : at + 2] == ["("]:
                yield "0"
                at = past_brackets(texts, at + 1)
            else:
                yield from self._source.expand([texts[at]])
                at += 1


@dataclass(frozen=True, slots=True)
class _Condition:
    active: bool
    taken: bool


def past_brackets(texts: Sequence[str], start: int) -> int:
    """The place after the bracket that closes the one at `start`; the end if none does."""
    depth = 0
    for at in range(start, len(texts)):
        depth += (texts[at] in OPEN) - (texts[at] in CLOSE)
        if depth == 0:
            return at + 1
    return len(texts)


def read_text(path: Path) -> str:
    """A source file's text.

    Raises:
        ShapeError: it cannot be read or is too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ShapeError(f"cannot be read: {error.strerror}", path=path) from None
    if len(data) > MAX_FILE_BYTES:
        raise ShapeError(f"is larger than {MAX_FILE_BYTES} bytes", path=path)
    return data.decode(errors="replace")


def without_comments(text: str) -> str:
    """Comments as blanks, line breaks kept; text in quotes stays."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return " " + "\n" * found.count("\n") if found.startswith("/") else found

    return _COMMENT.sub(blank, text)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines with the number of their first physical one."""
    held = ""
    start = 1
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        if not held:
            start = number
        if line.rstrip("\r").endswith("\\"):
            held += line.rstrip("\r")[:-1] + " "
            continue
        yield start, held + line
        held = ""
    if held:
        yield start, held


def _texts(line: str) -> list[str]:
    return [match[0] for match in _TOKEN.finditer(line)]
