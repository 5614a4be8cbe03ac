"""A header's tokens cut into top-level declarations, attributes told from what they decorate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hami_cache.toolkit.ctokens import CLOSE, OPEN, Token, past_brackets
from hami_cache.toolkit.shape import ShapeError

ATTRIBUTES = frozenset({"__attribute__", "__attribute", "_Alignas", "alignas"})
IGNORED = frozenset({"__extension__", "static", "extern", "inline", "__inline__", "register"})


@dataclass(frozen=True, slots=True)
class Piece:
    """One top-level declaration.

    Attributes:
        raw: its tokens as a compiler must see them.
        clean: the same without attributes, storage classes and the brackets of ``_Atomic(T)``.
        bent: attributes or a ``#pragma pack`` may place its members otherwise than C's rules alone.
    """

    raw: tuple[str, ...]
    clean: tuple[str, ...]
    bent: bool
    file: Path
    line: int


def pieces(tokens: Sequence[Token]) -> Iterator[Piece]:
    """The declarations that may be of structs or types; functions and variables are left out.

    A ``#pragma pack`` comes as a piece of its own.

    Raises:
        ShapeError: brackets do not balance.
    """
    packed = False
    for group in _groups(tokens):
        first = group[0]
        raw = tuple(token.text for token in group)
        if first.text.startswith("#"):
            if first.text.startswith("#pragma pack"):
                packed = True
                yield Piece(raw, (), True, first.file, first.line)
            continue
        clean, attributed = _clean(raw)
        if _declares_types(clean):
            yield Piece(raw, tuple(clean), packed or attributed, first.file, first.line)


def _with_pragmas(tokens: Sequence[Token]) -> Iterator[Token]:
    """Tokens with the operator ``_Pragma("…")`` as the directive that it stands for."""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        operand = tokens[at + 2].text if at + 3 < len(tokens) else ""
        if token.text == "_Pragma" and operand.startswith('"'):
            yield replace(token, text=f"#pragma {operand[1:-1]}")
            at += 4
        else:
            yield token
            at += 1


def _groups(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Up to a ``;`` or the brace that closes a function; a typedef always starts a new one."""
    group: list[Token] = []
    depth = 0
    function = opened = False
    for token in _with_pragmas(tokens):
        if token.text.startswith("#"):
            yield [token]  # inside a struct it holds for that struct too
            continue
        if token.text == "typedef" and depth == 0 and group:
            yield group
            group, function, opened = [], False, False
        if token.text == "{" and not opened:
            # Parameters stand before the first brace of a function, and of nothing else.
            opened, function = True, "(" in _clean([t.text for t in group])[0]
        group.append(token)
        depth += (token.text in OPEN) - (token.text in CLOSE)
        if depth <= 0 and (token.text == ";" or (token.text == "}" and function)):
            yield group
            group, depth, function, opened = [], 0, False, False
    if depth:
        raise ShapeError(
            f"line {group[0].line}: a declaration does not end",
            path=group[0].file,
            hint="is the file cut off, or a bracket missing?",
        )


def _declares_types(clean: Sequence[str]) -> bool:
    """Whether a declaration is a typedef, or defines a struct or an enumeration."""
    if not clean:
        return False
    if clean[0] == "typedef":
        return True
    return clean[0] in ("struct", "enum", "union") and "{" in clean[1:3]


def _clean(raw: Sequence[str]) -> tuple[list[str], bool]:
    """Tokens without attributes, and whether there were any."""
    kept: list[str] = []
    attributed = False
    at = 0
    while at < len(raw):
        token = raw[at]
        bracket = at + 1 < len(raw) and raw[at + 1] == "("
        if token in ATTRIBUTES and bracket:
            attributed = True
            at = past_brackets(raw, at + 1)
        elif token == "_Atomic" and bracket:
            end = past_brackets(raw, at + 1)
            kept += [token, *raw[at + 2 : end - 1]]
            at = end
        else:
            if token not in IGNORED:
                kept.append(token)
            at += 1
    return kept, attributed
