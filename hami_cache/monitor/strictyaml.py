"""YAML for settings: nothing is ignored. An unknown key, or one that stands twice, is an error.

Scalars keep the text they were written with, as a reader with typed fields sees them: a user called
``1234`` or ``yes`` is that text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from hami_cache.errors import ConfigError

Node = Any
"""A `yaml.Node`: PyYAML is imported late, and the types published for it lack `id`."""

_TRUE = frozenset({"y", "yes", "true", "on"})
_FALSE = frozenset({"n", "no", "false", "off"})
_NULL = "tag:yaml.org,2002:null"


class Section:
    """One mapping of a document.

    Args:
        file: where it was read from, for messages.
        name: its own key path; "" for the whole document.
        node: the mapping; None where the document leaves it out.
        keys: the keys it may have; None where they are data.

    Raises:
        ConfigError: it is no mapping, or a key is unknown or stands twice.
    """

    def __init__(
        self, file: Path, name: str, node: Node | None, keys: Collection[str] | None
    ) -> None:
        self._file = file
        self._name = name
        self._values: dict[str, Node] = {}
        for key, value in self._pairs(node):
            known = self._values.setdefault(key, value)
            if keys is not None and key not in keys:
                raise self.error(key, "is not a key here", f"there are: {', '.join(keys)}")
            if known is not value:
                raise self.error(key, "stands here twice")

    def error(self, key: str, message: str, hint: str | None = None) -> ConfigError:
        """What to raise about a key: it names the place, never a value that may be secret."""
        node = self._values.get(key)
        line = "" if node is None else f" (line {node.start_mark.line + 1})"
        field = ".".join(part for part in (self._name, key) if part)
        return ConfigError(f"{message}{line}", path=self._file, field=field or None, hint=hint)

    def text(self, key: str) -> str:
        """A scalar's text, "" where it is missing or null."""
        node = self._values.get(key)
        return "" if node is None else self._scalar(key, node)

    def texts(self, key: str) -> list[str] | None:
        """A list of scalars; None where it is missing or null."""
        node = self._values.get(key)
        if node is None or node.tag == _NULL:
            return None
        if node.id != "sequence":
            raise self.error(key, "must be a list")
        return [self._scalar(key, item) for item in node.value]

    def flag(self, key: str, default: bool) -> bool:
        """A boolean."""
        text = self.text(key).lower()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        if text:
            raise self.error(key, "must be true or false")
        return default

    def section(self, key: str, keys: Collection[str] | None) -> Section:
        """A mapping inside this one, empty where it is missing."""
        field = f"{self._name}.{key}" if self._name else key
        return Section(self._file, field, self._values.get(key), keys)

    def items(self) -> dict[str, str]:
        """All scalars, by key."""
        return {key: self.text(key) for key in self._values}

    def _pairs(self, node: Node | None) -> Iterable[tuple[str, Node]]:
        if node is None or node.tag == _NULL:
            return
        if node.id != "mapping":
            raise self.error("", "must be a mapping")
        for key, value in node.value:
            yield self._scalar("", key), value

    def _scalar(self, key: str, node: Node) -> str:
        if node.id != "scalar":
            raise self.error(key, "must be a plain value")
        return "" if node.tag == _NULL else str(node.value)


def read_yaml(data: bytes, file: Path, keys: Collection[str]) -> Section:
    """Read a document.

    Args:
        data: UTF-8.
        file: for messages.
        keys: the keys that the document may have.

    Raises:
        ConfigError: it is not YAML, or not a mapping with these keys; PyYAML is not there.
    """
    try:
        import yaml
    except ImportError:
        raise ConfigError(
            "reading it needs PyYAML", path=file, hint="pip install 'hami-cache[web]'"
        ) from None
    try:
        root = yaml.compose(data, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f" (line {error.problem_mark.line + 1})" if error.problem_mark else ""
        raise ConfigError(f"not YAML: {error.problem}{line}", path=file) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"not YAML: {type(error).__name__}", path=file) from None
    return Section(file, "", root, keys)
