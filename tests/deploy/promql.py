"""Which metrics and labels a PromQL expression names; just enough of the language for deploy/."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

NAME = r"[a-zA-Z_:][\w:]*"
STRING = r'"(?:\\.|[^"\\])*"'
TOKEN = re.compile(
    rf"(?P<text>{STRING}|{NAME}|\d+(?:\.\d+)?|=~|!~|!=|==|>=|<=|[-+*/%^<>={{}}(),])"
    r"|\s+|\[[^\]]*\]"
)
GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
WORDS = {"and", "or", "unless", "bool", "offset"}


@dataclass
class Named:
    """What an expression names.

    Attributes:
        metrics: every metric, with the labels that its matchers name.
        values: label -> what matchers compare it with.
        grouping: labels of by, without, on and ignoring.
        made: labels that label_replace makes.
    """

    metrics: dict[str, set[str]] = field(default_factory=dict)
    values: dict[str, set[str]] = field(default_factory=dict)
    grouping: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)


def tokens(expression: str) -> list[str]:
    """The expression's parts, without spaces and ranges.

    Raises:
        ValueError: something that this reader does not know.
    """
    found, position = [], 0
    while position < len(expression):
        match = TOKEN.match(expression, position)
        if match is None:
            raise ValueError(f"not understood: {expression[position:]!r}")
        if match["text"]:
            found.append(match["text"])
        position = match.end()
    return found


def named(expression: str) -> Named:
    """Read an expression."""
    found = Named()
    rest = tokens(expression)
    while rest:
        part = rest.pop(0)
        follows = rest[0] if rest else ""
        if part in GROUPING and follows == "(":
            found.grouping |= {label for label in _closed(rest, ")") if label != ","}
        elif part == "label_replace":
            found.made.add(_second_argument(rest))
        elif _is_metric(part, follows):
            labels = found.metrics.setdefault(part, set())
            if follows == "{":
                _read_matchers(_closed(rest, "}"), labels, found.values)
    return found


def _is_metric(part: str, follows: str) -> bool:
    is_name = re.fullmatch(NAME, part) is not None
    return is_name and part not in GROUPING | WORDS and follows not in {"(", *GROUPING}


def _closed(rest: list[str], end: str) -> list[str]:
    """Take the parts from a bracket to its end, without both."""
    rest.pop(0)
    inside = []
    while (part := rest.pop(0)) != end:
        inside.append(part)
    return inside


def _read_matchers(parts: list[str], labels: set[str], values: dict[str, set[str]]) -> None:
    """``label op "value"``, with commas between them."""
    for label, operator, value, comma in zip(*[iter([*parts, ","])] * 4, strict=True):
        if operator not in ("=", "=~", "!=", "!~") or comma != ",":
            raise ValueError(f"no matcher: {label} {operator} {value}")
        labels.add(label)
        values.setdefault(label, set()).update(value.strip('"').split("|"))


def _second_argument(rest: list[str]) -> str:
    depth = 0
    for place, part in enumerate(rest):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(part, 0)
        if part == "," and depth == 1:
            return rest[place + 1].strip('"')
    raise ValueError("label_replace without a label")
