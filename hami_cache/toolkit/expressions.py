"""Integer constant expressions of C and Go, as array bounds and ``#if`` use them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence

LIMIT = 1 << 64
"""No constant of a struct is larger, whatever a header says."""

DEPTH = 40
"""Parentheses within parentheses; beyond it a text is no array bound but an attack."""

_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"),
    ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
"""C's binary operators, loosest first. Go binds ``&`` and ``<<`` tighter, which shows only where
operators are mixed without parentheses; array bounds do not."""

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|0[0-7_]*|[1-9][0-9_]*)[uUlL]*")

Lookup = Callable[[str], int | None]


class NotConstantError(Exception):
    """The tokens are no constant expression that can be evaluated here; the message says why."""


def evaluate(tokens: Sequence[str], lookup: Lookup) -> int:
    """The value of a constant expression.

    Args:
        tokens: identifiers, numbers, character constants and operators.
        lookup: the value of an identifier, or None if it has none.

    Raises:
        NotConstantError: an unknown name, a syntax that is not arithmetic, a division by zero, a
            huge number.
    """
    parser = _Parser(tokens, lookup)
    value = parser.conditional()
    if parser.peek():
        raise NotConstantError(f"unexpected {parser.peek()!r}")
    return value


def integer(text: str) -> int | None:
    """The value of an integer literal, or None if it is not one."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    digits = match[1].replace("_", "")
    if re.fullmatch(r"0[0-7]+", digits):
        return int(digits, 8)
    return int(digits, 0)


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, tokens: Sequence[str], lookup: Lookup) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._lookup = lookup

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self._at += 1
        return token

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise NotConstantError(f"{token!r} is missing")

    def conditional(self) -> int:
        self._depth += 1
        if self._depth > DEPTH:
            raise NotConstantError("nested too deeply")
        value = self.binary(0)
        if self.peek() == "?":
            self.take()
            then = self.conditional()
            self.expect(":")
            other = self.conditional()
            value = then if value else other
        self._depth -= 1
        return value

    def binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.unary()
        value = self.binary(level + 1)
        while self.peek() in _LEVELS[level]:
            sign = self.take()
            value = _apply(sign, value, self.binary(level + 1))
            if abs(value) > LIMIT:
                raise NotConstantError("the number is too large")
        return value

    def unary(self) -> int:
        signs = []
        while self.peek() in ("+", "-", "!", "~") and self.peek():
            signs.append(self.take())
        value = self.primary()
        for sign in reversed(signs):
            value = {"+": value, "-": -value, "!": int(not value), "~": ~value}[sign]
        return value

    def primary(self) -> int:
        token = self.take()
        if token == "(":
            value = self.conditional()
            self.expect(")")
            return value
        if (number := integer(token)) is not None:
            if number > LIMIT:
                raise NotConstantError("the number is too large")
            return number
        if re.fullmatch(r"'[^'\\]'", token):
            return ord(token[1])
        if re.fullmatch(r"[A-Za-z_]\w*", token):
            known = self._lookup(token)
            if known is not None:
                return known
            raise NotConstantError(f"{token} is not defined")
        raise NotConstantError(f"unexpected {token!r}" if token else "it is empty")


_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "|": operator.or_,
    "^": operator.xor,
    "&": operator.and_,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "<<": operator.lshift,
    ">>": operator.rshift,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def _apply(sign: str, left: int, right: int) -> int:
    if sign in ("/", "%"):
        if right == 0:
            raise NotConstantError("division by zero")
        # C and Go cut towards zero, Python rounds down.
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if sign == "/" else left - quotient * right
    if sign in ("<<", ">>") and not 0 <= right < 64:
        raise NotConstantError(f"a shift by {right}")
    return _OPERATIONS[sign](left, right)
