"""JSON as Go's encoding/json reads and writes it.

The annotations and sections here are written and read by Go programs on the other side, so what
counts as readable is decided there: member names match in any case, unknown members are passed
over, null leaves the zero value, and one wrong type or one number out of range makes the whole
document unreadable. Python's reader is laxer (NaN) and knows no types; this module says what is
expected as a tree of readers and applies Go's rules to it.

Checked against encoding/json of Go 1.26. One known difference: Python gives up on documents nested
more than a few hundred levels deep, Go after 10,000; here such a document is unreadable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from hami_cache.errors import HamiCacheError

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile('[\x00-\x1f"\\\\<>&\u2028\u2029\ud800-\udfff]')
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}
_DIGITS = re.compile(r"-?[0-9]{1,20}")


class GoJsonError(HamiCacheError):
    """A document that Go's encoding/json would not decode into the expected type."""


class Reader(Protocol):
    """Reads one value of an expected type."""

    @property
    def zero(self) -> Any:
        """What is there when the member is missing."""
        ...

    def read(self, value: Any, old: Any, where: str) -> Any:
        """Read `value` over `old`: the zero value, or what an earlier member of that name left."""
        ...


class _Number(str):
    """A number's text: only its reader knows which numbers are in range."""

    __slots__ = ()


class _Object(list[tuple[str, Any]]):
    """An object's members in order, repeated names included."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    zero: str = ""

    def read(self, value: Any, old: Any, where: str) -> Any:
        """The text, lone surrogates replaced by U+FFFD as Go does."""
        if value is None:
            return old
        if not isinstance(value, str) or isinstance(value, _Number):
            raise GoJsonError("not a string", field=where)
        return _SURROGATE.sub("\ufffd", value)


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number from `low` to `high`, written without fraction or exponent."""

    low: int
    high: int
    zero: int = 0

    def read(self, value: Any, old: Any, where: str) -> Any:
        """The number."""
        if value is None:
            return old
        text = str(value) if isinstance(value, _Number) else ""
        signed_zero = text == "-0" and self.low == 0
        if not _DIGITS.fullmatch(text) or signed_zero or not self.low <= int(text) <= self.high:
            raise GoJsonError(f"not a whole number in [{self.low}, {self.high}]", field=where)
        return int(text)


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    zero: bool = False

    def read(self, value: Any, old: Any, where: str) -> Any:
        """The truth value."""
        if value is None:
            return old
        if not isinstance(value, bool):
            raise GoJsonError("neither true nor false", field=where)
        return value


@dataclass(frozen=True, slots=True)
class Optional:
    """A pointer: None where the member is missing or null, which differs from a zero."""

    item: Reader
    zero: None = None

    def read(self, value: Any, old: Any, where: str) -> Any:
        """The item, or None for null."""
        if value is None:
            return None
        return self.item.read(value, self.item.zero if old is None else old, where)


@dataclass(frozen=True, slots=True)
class Array:
    """A list; a repeated one is read over the elements of the earlier one, as Go does."""

    item: Reader
    zero: tuple[Any, ...] = ()

    def read(self, value: Any, old: Any, where: str) -> Any:
        """The elements as a tuple; null is no elements."""
        if value is None:
            return ()
        if not isinstance(value, list) or isinstance(value, _Object):
            raise GoJsonError("not a list", field=where)
        return tuple(
            self.item.read(element, old[i] if i < len(old) else self.item.zero, f"{where}[{i}]")
            for i, element in enumerate(value)
        )


@dataclass(frozen=True, slots=True)
class Struct:
    """An object with known members; others are passed over unread."""

    members: Mapping[str, Reader]

    @property
    def zero(self) -> dict[str, Any]:
        """Every member at its zero value."""
        return {name: reader.zero for name, reader in self.members.items()}

    def read(self, value: Any, old: Any, where: str) -> Any:
        """The members by their declared names."""
        if value is None:
            return old
        result = dict(old)
        for name, member in _members(value, where):
            declared = self._declared(name)
            if declared is not None:
                place = f"{where}.{declared}" if where else declared
                result[declared] = self.members[declared].read(member, result[declared], place)
        return result

    def _declared(self, name: str) -> str | None:
        if name in self.members:
            return name
        folded = _fold(name)
        return next((known for known in self.members if _fold(known) == folded), None)


@dataclass(frozen=True, slots=True)
class Table:
    """An object used as a map: any name, one type of value; a repeated name starts afresh."""

    item: Reader

    @property
    def zero(self) -> dict[str, Any]:
        """No entries."""
        return {}

    def read(self, value: Any, old: Any, where: str) -> Any:
        """The entries by name, in the document's order."""
        if value is None:
            return {}
        result = dict(old)
        for name, member in _members(value, where):
            key = _SURROGATE.sub("\ufffd", name)
            result[key] = self.item.read(member, self.item.zero, f"{where}.{key}" if where else key)
        return result


def decode(source: str, reader: Reader) -> Any:
    """Read a document of an expected type.

    Args:
        source: the text; nothing but white space may stand around the value.
        reader: what is expected.

    Returns:
        Plain dicts, tuples, strings and integers, complete with zero values.

    Raises:
        GoJsonError: not JSON, or not of that type; `field` says where.
    """
    try:
        value = json.loads(
            source,
            object_pairs_hook=_Object,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_refuse_constant,
        )
    except RecursionError:
        raise GoJsonError("nested too deeply") from None
    except ValueError as error:
        raise GoJsonError(f"not JSON: {error}") from None
    return reader.read(value, reader.zero, "")


def quote(text: str) -> str:
    """A JSON string as json.Marshal writes it: HTML characters and U+2028/9 are escaped."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    if "\ud800" <= char <= "\udfff":
        return "\\ufffd"
    return _SHORT_ESCAPES.get(char) or f"\\u{ord(char):04x}"


def _members(value: Any, where: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, _Object):
        raise GoJsonError("not an object", field=where or None)
    return value


def _fold(name: str) -> str:
    """Names match as Go folds them: ASCII case, and the two letters that fold into ASCII."""
    return name.replace("\u017f", "s").replace("\u212a", "k").lower()


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")
