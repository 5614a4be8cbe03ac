"""From YAML text to JSON-like values, the way ``sigs.k8s.io/yaml`` 1.3.0 goes.

PyYAML's parser gives the events; the values are built here, because yaml.v2 differs from PyYAML in
what scalars mean, in merge keys and in duplicates. Bounds on size, depth and alias expansion keep a
hostile file harmless.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from hami_cache.allocwatch.goyaml.scalars import (
    INT_MAX,
    Scalar,
    float_as_text,
    resolve,
    resolve_tagged,
)
from hami_cache.errors import ConfigError

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

MAX_BYTES = 1 << 20
"""Real files have kilobytes, and the parser takes seconds for a megabyte."""

MAX_DEPTH = 100
MAX_NODES = 50_000
"""Nodes of one document with every alias expanded; real files have hundreds."""

_Key = tuple[type, Scalar]
"""A key with its type: to yaml.v2 ``0``, ``0.0``, ``"0"`` and ``false`` are four keys."""


class _Map(dict[_Key, Any]):
    """A mapping before its keys have become text."""


@dataclass(slots=True)
class _Anchor:
    value: Any = None
    nodes: int = 0
    height: int = 0
    complete: bool = False


def load(text: bytes, *, strict: bool) -> Json:
    """Read the first document of a YAML text; what follows it is not looked at.

    Args:
        text: UTF-8 (or UTF-16 with a byte order mark).
        strict: a key given twice in one mapping is an error; otherwise the later one counts.

    Returns:
        The document with its keys as text; None when there is none. Floats are always finite.

    Raises:
        ConfigError: not YAML, no JSON equivalent (an infinity, a null or unsigned key), or past the
            bounds.
    """
    try:
        import yaml
    except ImportError:
        raise ConfigError("PyYAML is missing", hint="pip install 'hami-cache[kubelet]'") from None
    if len(text) > MAX_BYTES:
        raise ConfigError(f"larger than {MAX_BYTES} bytes")
    try:
        return _as_json(_Builder(yaml, strict).document(yaml.parse(text, Loader=yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        where = error.problem_mark
        place = f"line {where.line + 1}, column {where.column + 1}" if where else None
        raise ConfigError(f"not YAML: {error.problem or error.context}", field=place) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # PyYAML lets chr() and int() raise on escapes and directives that are out of range.
        raise ConfigError(f"not YAML: {str(error).splitlines()[0]}") from None


class _Builder:
    """Builds values from a stream of events."""

    def __init__(self, yaml: Any, strict: bool) -> None:
        self._yaml = yaml
        self._strict = strict
        self._anchors: dict[str, _Anchor] = {}
        self._nodes = 0
        self._depth = 0
        self._deepest = 0

    def document(self, events: Iterator[Any]) -> Any:
        for event in events:
            if isinstance(event, self._yaml.DocumentStartEvent):
                value = self._node(next(events), events)
                next(events)  # its end: a fault right behind the value shows itself here
                return value
        return None

    def _node(self, event: Any, events: Iterator[Any]) -> Any:
        if isinstance(event, self._yaml.AliasEvent):
            return self._alias(event)
        self._count(1)
        if event.anchor is None:
            return self._content(event, events)
        # Known from its start on: an anchor of the same name inside it is the later one.
        anchor = self._anchors[event.anchor] = _Anchor()
        nodes, deepest, self._deepest = self._nodes, self._deepest, self._depth
        anchor.value = self._content(event, events)
        anchor.nodes, anchor.height = self._nodes - nodes + 1, self._deepest - self._depth
        anchor.complete = True
        self._deepest = max(self._deepest, deepest)
        return anchor.value

    def _content(self, event: Any, events: Iterator[Any]) -> Any:
        if isinstance(event, self._yaml.ScalarEvent):
            return self._scalar(event)
        self._depth += 1
        self._reach(self._depth, event)
        if isinstance(event, self._yaml.SequenceStartEvent):
            value: Any = self._sequence(events)
        else:
            value = self._mapping(events)
        self._depth -= 1
        return value

    def _alias(self, event: Any) -> Any:
        anchor = self._anchors.get(event.anchor)
        if anchor is None or not anchor.complete:
            fault = "is not defined" if anchor is None else "contains itself"
            raise ConfigError(f"the anchor {event.anchor[:40]!r} {fault}", field=_place(event))
        self._count(anchor.nodes)
        self._reach(self._depth + anchor.height, event)
        return anchor.value

    def _reach(self, depth: int, event: Any) -> None:
        self._deepest = max(self._deepest, depth)
        if depth > MAX_DEPTH:
            raise ConfigError(f"nested deeper than {MAX_DEPTH} levels", field=_place(event))

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise ConfigError(f"more than {MAX_NODES} values, aliases expanded")

    def _scalar(self, event: Any) -> Scalar:
        text = event.value
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise ConfigError("a lone surrogate is no character", field=_place(event))
        if event.tag is not None:
            return resolve_tagged(event.tag, text)
        return resolve(text) if event.implicit[0] else str(text)

    def _sequence(self, events: Iterator[Any]) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(events), self._yaml.SequenceEndEvent):
            items.append(self._node(event, events))
        return items

    def _mapping(self, events: Iterator[Any]) -> _Map:
        result = _Map()
        while not isinstance(event := next(events), self._yaml.MappingEndEvent):
            if self._is_merge(event):
                self._count(1)
                self._merge(result, self._node(next(events), events), event)
                continue
            key = self._node(event, events)
            if isinstance(key, list | _Map):
                raise ConfigError("a list or a map cannot be a key", field=_place(event))
            self._put(result, (type(key), key), self._node(next(events), events), event)
        return result

    def _is_merge(self, event: Any) -> bool:
        return (
            isinstance(event, self._yaml.ScalarEvent)
            and event.value == "<<"
            and (event.implicit[0] or event.tag == "tag:yaml.org,2002:merge")
        )

    def _merge(self, result: _Map, source: Any, event: Any) -> None:
        """Copy a mapping, or a list of them of which the earlier win, into the one at hand.

        A merged key replaces the same key given before it and is replaced by one given after it.
        """
        sources = list(reversed(source)) if isinstance(source, list) else [source]
        for each in sources:
            if not isinstance(each, _Map):
                raise ConfigError("<< wants a map or a list of maps", field=_place(event))
            for key, value in each.items():
                self._put(result, key, value, event)

    def _put(self, result: _Map, key: _Key, value: Any, event: Any) -> None:
        if self._strict and key in result:
            raise ConfigError(f"the key {str(key[1])[:40]!r} is there twice", field=_place(event))
        result[key] = value


def _as_json(value: Any) -> Json:
    if isinstance(value, _Map):
        result: dict[str, Json] = {}
        for key, item in value.items():
            text, converted = _key_text(key[1]), _as_json(item)
            # 0 and "0" are one key from here on. With different values, which one is meant?
            if result.setdefault(text, converted) != converted:
                raise ConfigError(f"the key {text[:40]!r} is there twice")
        return result
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError("JSON has no infinity and no NaN", hint="use a finite number")
    scalar: Json = value
    return scalar


def _key_text(key: Scalar) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, float):
        return float_as_text(key)
    if key is None or key > INT_MAX:
        raise ConfigError(f"{'null' if key is None else key} cannot be a key")
    return str(key)


def _place(event: Any) -> str:
    return f"line {event.start_mark.line + 1}, column {event.start_mark.column + 1}"
