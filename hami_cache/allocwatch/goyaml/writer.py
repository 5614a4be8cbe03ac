"""From JSON-like values to YAML text, character for character as yaml.v2 2.4.0 writes it.

Block style, two columns of indent, keys in natural order, text folded at 80 columns where a space
allows it. Three positions of the pen decide where a line breaks: the column, whether it stands
behind white space, and whether only indentation and ``-`` or ``?`` stand before it.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hami_cache.allocwatch.goyaml.reader import Json
from hami_cache.allocwatch.goyaml.scalars import go_float, json_number, needs_quotes

_WIDTH = 80
_INDENT = 2
_SIMPLE_KEY = 128
"""Bytes of the longest key that is written without a ``?``."""

_BREAKS = "\n\r\x85\u2028\u2029"
_UNPRINTABLE = re.compile("[^\n\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
_LOOKS_LIKE_SYNTAX = re.compile(r"---|\.\.\.|[#,\[\]{}&*!|>'\"%@`]|[?:-](?: |\Z)")
_SYNTAX_INSIDE = re.compile(r":(?: |\Z)| #")
_ESCAPES = {
    "\0": "0", "\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r",
    "\x1b": "e", '"': '"', "\\": "\\", "\x85": "N", "\u2028": "L", "\u2029": "P",
}  # fmt: skip


def dump(document: Json) -> str:
    """The document as YAML text with a final line break. Floats must be finite."""
    pen = _Pen()
    pen.node(document, -_INDENT, in_mapping=False)
    pen.new_line(0)
    return "".join(pen.written)


class _Pen:
    def __init__(self) -> None:
        self.written: list[str] = []
        self._column = 0
        self._after_space = True
        self._only_indent = True

    def node(self, value: Json, indent: int, *, in_mapping: bool) -> None:
        if isinstance(value, Mapping) and value:
            self._mapping(value, indent + _INDENT)
        elif isinstance(value, list) and value:
            # A list below a key starts in the key's own column.
            below_key = in_mapping and not self._only_indent
            self._sequence(value, indent if below_key else indent + _INDENT)
        elif isinstance(value, str):
            self._text(value, max(indent, 0) + _INDENT, as_key=False)
        else:
            self._indicator(_word(value))

    def _mapping(self, value: Mapping[str, Json], indent: int) -> None:
        for key in sorted(value, key=functools.cmp_to_key(_compare)):
            self.new_line(indent)
            if any(char in _BREAKS for char in key) or len(key.encode()) > _SIMPLE_KEY:
                self._indicator("?", keeps_indent=True)
                self._text(key, indent + _INDENT, as_key=False)
                self.new_line(indent)
                self._indicator(":", keeps_indent=True)
            else:
                self._text(key, indent + _INDENT, as_key=True)
                self._indicator(":", spaced=False)
            self.node(value[key], indent, in_mapping=True)

    def _sequence(self, value: Sequence[Json], indent: int) -> None:
        for item in value:
            self.new_line(indent)
            self._indicator("-", keeps_indent=True)
            self.node(item, indent, in_mapping=False)

    def _text(self, text: str, indent: int, *, as_key: bool) -> None:
        # yaml.v2 leaves the key << plain, and cannot read its own file again: a merge of no map.
        quoted = needs_quotes(text) or (as_key and text == "<<")
        odd = _UNPRINTABLE.search(text) or any(" " + char in text for char in _BREAKS)
        if "\n" in text and not odd and not text.endswith(" "):
            self._literal(text, indent)
        elif "\n" in text or odd or quoted:
            self._double_quoted(text, indent, folds=not as_key)
        elif _plain(text):
            self._folded(text, "", indent, folds=not as_key)
        elif any(char + " " in text for char in _BREAKS):
            self._double_quoted(text, indent, folds=not as_key)
        else:
            self._folded(text, "'", indent, folds=not as_key)

    def _folded(self, text: str, quote: str, indent: int, *, folds: bool) -> None:
        """Plain or single quoted text; a lone space past the width becomes a line break."""
        self._indicator(quote)
        last = len(text) - 1
        for place, char in enumerate(text):
            lone = (
                char == " " and 0 < place < last and " " not in (text[place - 1], text[place + 1])
            )
            if lone and folds and self._column > _WIDTH:
                self.new_line(indent)
            elif char in _BREAKS:
                self._break(char)
            else:
                if place and text[place - 1] in _BREAKS:
                    self.new_line(indent)
                self._put("''" if char == "'" and quote else char)
                self._only_indent = False
        self._indicator(quote, spaced=False)

    def _double_quoted(self, text: str, indent: int, *, folds: bool) -> None:
        self._indicator('"')
        last = len(text) - 1
        for place, char in enumerate(text):
            after_space = place > 0 and text[place - 1] == " "
            if char in _ESCAPES or _UNPRINTABLE.match(char):
                self._put("\\" + _escape(char))
            elif (
                char == " "
                and folds
                and not after_space
                and self._column > _WIDTH
                and 0 < place < last
            ):
                self.new_line(indent)
                self._put("\\" if text[place + 1] == " " else "")
            else:
                self._put(char)
        self._indicator('"', spaced=False)

    def _literal(self, text: str, indent: int) -> None:
        """A ``|`` block: what its first line says is whether it starts blank and how it ends."""
        starts = str(_INDENT) if text[0] in " " + _BREAKS else ""
        ends = "-" if text[-1] not in _BREAKS else "+" if text[-2:-1] in ("", *_BREAKS) else ""
        self._indicator("|" + starts + ends)
        self._break("\n")
        self._after_space = True
        at_line_start = True
        for char in text:
            if char in _BREAKS:
                self._break(char)
            else:
                if at_line_start:
                    self.new_line(indent)
                self._put(char)
                self._only_indent = False
            at_line_start = char in _BREAKS

    def new_line(self, indent: int) -> None:
        """Go to the column of the indent: on this line if only indentation stands on it so far."""
        at_indent = self._column == indent and not self._after_space
        if not self._only_indent or self._column > indent or at_indent:
            self._break("\n")
        self._put(" " * (indent - self._column))
        self._after_space = self._only_indent = True

    def _indicator(self, text: str, *, spaced: bool = True, keeps_indent: bool = False) -> None:
        if spaced and not self._after_space:
            self._put(" ")
        self._put(text)
        self._after_space = False
        self._only_indent = self._only_indent and keeps_indent

    def _break(self, char: str) -> None:
        self.written.append(char)
        self._column = 0
        self._only_indent = True

    def _put(self, text: str) -> None:
        self.written.append(text)
        self._column += len(text)


def _word(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        number = json_number(value)
        return go_float(number) if isinstance(number, float) else str(number)
    return "{}" if value == {} else "[]" if value == [] else str(value)


def _plain(text: str) -> bool:
    return (
        text[0] != " "
        and text[-1] != " "
        and not any(char in _BREAKS for char in text)
        and not _LOOKS_LIKE_SYNTAX.match(text)
        and not _SYNTAX_INSIDE.search(text)
    )


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    code = ord(char)
    return f"x{code:02X}" if code <= 0xFF else f"u{code:04X}" if code <= 0xFFFF else f"U{code:08X}"


def _compare(left: str, right: str) -> int:
    """Natural order: letters behind everything else, runs of digits by their number.

    What decides is the first character in which the keys differ.
    """
    for place, (a, b) in enumerate(zip(left, right, strict=False)):
        if a == b:
            continue
        if a.isalpha() or b.isalpha():
            return _order(a, b) if a.isalpha() and b.isalpha() else _order(a.isalpha(), b.isalpha())
        # A zero behind a number's first digits counts; a leading one does not.
        behind = "0" in (a, b) and _inside_number(left[:place])
        a_digits, b_digits = _digits(left[place:]), _digits(right[place:])
        return (
            _order(_number(a_digits, behind), _number(b_digits, behind))
            or _order(len(a_digits), len(b_digits))
            or _order(a, b)
        )
    return _order(len(left), len(right))


def _inside_number(before: str) -> bool:
    digits = itertools.takewhile(str.isdecimal, reversed(before))
    return any(digit != "0" for digit in digits)


def _digits(text: str) -> str:
    return "".join(itertools.takewhile(str.isdecimal, text))


def _number(digits: str, behind: bool) -> int:
    """The digits' value as a signed 64-bit number that wraps, as Go computes it."""
    value = int(behind)
    for digit in digits:
        value = (value * 10 + ord(digit) - ord("0")) % 2**64
    return value - 2**64 if value >= 2**63 else value


def _order(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)
