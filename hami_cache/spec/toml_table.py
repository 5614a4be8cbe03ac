"""TOML tables that answer with values of the right type, or with an error naming file and key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from hami_cache.errors import LayoutError

MAX_NUMBER = 1 << 24
"""No size, offset or count in a layout file is larger: a region has at most 16 MiB."""

T = TypeVar("T")


class Table:
    """A TOML table that knows its own place and what was asked of it.

    Args:
        values: the table.
        path: the file it is in.
        where: its key path there; "" for the whole document.
    """

    def __init__(self, values: Mapping[str, Any], path: Path, where: str) -> None:
        self._values = values
        self._path = path
        self._where = where
        self._asked: set[str] = set()

    def error(self, key: str, message: str, hint: str | None = None) -> LayoutError:
        """The error that says what is wrong with a key, and where it stands."""
        return LayoutError(message, path=self._path, field=self._full(key), hint=hint)

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        """The value of a key.

        Raises:
            LayoutError: it is missing (and has no default) or of another type.
        """
        self._asked.add(key)
        value = self._values.get(key, default)
        if value is None:
            raise self.error(key, "is missing")
        if kind is float and type(value) is int and abs(value) <= MAX_NUMBER:
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(key, f"must be a {_TOML_NAMES[kind]}, not {shown(value)}")
        return value

    def natural(self, key: str, default: int | None = None) -> int:
        """A whole number from 0 to `MAX_NUMBER`."""
        value = self.get(key, int, default)
        if not 0 <= value <= MAX_NUMBER:
            raise self.error(key, f"must be between 0 and {MAX_NUMBER}, not {shown(value)}")
        return value

    def word(self, key: str, default: str | None = None) -> str:
        """A C identifier."""
        value = self.get(key, str, default)
        if not re.fullmatch(r"[A-Za-z_]\w*", value, re.ASCII):
            raise self.error(key, f"must be a C identifier, not {shown(value)}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        values = self.get(key, list)
        if not all(isinstance(v, str) for v in values):
            raise self.error(key, "must be a list of strings")
        return tuple(values)

    def table(self, key: str) -> Table:
        """A table inside this one."""
        return Table(self.get(key, dict), self._path, self._full(key))

    def tables(self, key: str) -> list[Table]:
        """A list of tables."""
        values = self.get(key, list)
        if not all(isinstance(v, dict) for v in values):
            raise self.error(key, "must be a list of tables")
        return [Table(v, self._path, f"{self._full(key)}[{i}]") for i, v in enumerate(values)]

    def names(self) -> list[str]:
        """All keys, which then count as asked for."""
        self._asked.update(self._values)
        return list(self._values)

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return key in self._values

    def rest(self) -> dict[str, Any]:
        """Everything not asked for yet: a probe's parameters."""
        rest = {k: v for k, v in self._values.items() if k not in self._asked}
        self._asked.update(rest)
        return rest

    def done(self) -> None:
        """Refuse keys that nobody asked for: a typo must not pass as a default."""
        for key in self._values:
            if key not in self._asked:
                message = "is not a key of a layout file"
                raise self.error(key, message, hint="see docs/add-a-layout.md")

    def _full(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key


_TOML_NAMES = {
    str: "string",
    int: "whole number",
    float: "number",
    dict: "table",
    list: "list",
    bool: "boolean",
}


def shown(value: object) -> str:
    """A value as an error message shows it: the beginning of a long one."""
    try:
        return f"{value!r:.60}"
    except ValueError:  # Python refuses to print numbers of thousands of digits
        return "a very large number"
