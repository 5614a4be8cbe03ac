"""C source as tokens, and the small things that every reader of source text needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hami_cache.toolkit.shape import ShapeError

MAX_FILE_BYTES = 4 << 20

OPEN, CLOSE = frozenset("([{"), frozenset(")]}")
NAME = re.compile(r"[A-Za-z_]\w*")

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


@dataclass(frozen=True, slots=True)
class Token:
    """One token and where it stands; a ``#pragma`` is one token that starts with ``#``."""

    text: str
    file: Path
    line: int


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


def _without_comments(text: str) -> str:
    """Comments as blanks, line breaks kept; text in quotes stays."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return " " + "\n" * found.count("\n") if found.startswith("/") else found

    return _COMMENT.sub(blank, text)


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, continued ones joined, with the number of their first part."""
    held = ""
    start = 1
    for number, line in enumerate(_without_comments(text).split("\n"), 1):
        if not held:
            start = number
        if line.rstrip("\r").endswith("\\"):
            held += line.rstrip("\r")[:-1] + " "
            continue
        yield start, held + line
        held = ""
    if held:
        yield start, held


def texts(line: str) -> list[str]:
    """The tokens of a line."""
    return [match[0] for match in _TOKEN.finditer(line)]
