"""JSON-like values where a Go program expects a certain type: the rules of ``encoding/json``.

Member names match in any case, null is the zero value, and a value of another type is an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from hami_cache.allocwatch.goyaml.reader import Json
from hami_cache.allocwatch.goyaml.scalars import float_as_text, json_number
from hami_cache.errors import ConfigError


def as_map(value: Json, where: str) -> dict[str, Json]:
    """A map; null is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError("not a map", field=where)
    return value


def as_list(value: Json, where: str) -> list[Json]:
    """A list; null is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ConfigError("not a list", field=where)
    return value


def as_whole(value: Json, low: int, high: int, where: str) -> int:
    """A whole number in [low, high], also one that is written as a float; null is 0."""
    if value is None:
        return 0
    number = json_number(value) if isinstance(value, float) else value
    if type(number) is not int or not low <= number <= high:
        raise ConfigError(f"not a whole number from {low} to {high}", field=where)
    return number


def as_text(value: Json, where: str) -> str:
    """A text; numbers and booleans become one, as in ``sigs.k8s.io/yaml``; null is ""."""
    if value is None:
        return ""
    if isinstance(value, dict | list):
        raise ConfigError("not a text", field=where)
    if isinstance(value, bool):
        return "true" if value else "false"
    return float_as_text(value) if isinstance(value, float) else str(value)


def members(value: Json, where: str) -> Iterator[tuple[str, Json]]:
    """A map's members in the order of their names' bytes, names in lower case."""
    for name, member in sorted(as_map(value, where).items()):
        yield name.casefold(), member


def member(value: Json, name: str, where: str) -> Json:
    """The member of that name (in lower case); of several spellings the last in byte order."""
    return dict(members(value, where)).get(name)
