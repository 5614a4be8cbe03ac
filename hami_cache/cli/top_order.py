"""In which order ``hami-cache top`` shows its lines, and which of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hami_cache.absent import Absent

if TYPE_CHECKING:
    from hami_cache.cli.top_reading import Line

Value = int | float | str
"""What lines are compared by: of one kind for all lines."""


@dataclass(frozen=True, slots=True)
class Order:
    """How to sort by one column.

    Attributes:
        value: of a line; None where it has none: such lines come last, whichever way round.
        descending: the largest first, unless somebody turns it round.
    """

    value: Callable[[Line], Value | None]
    descending: bool


def sort(lines: Iterable[Line], key: str, *, turned: bool = False) -> list[Line]:
    """Sort by a column of `ORDERS`; equal ones stay by name.

    Args:
        lines: by name.
        key: the column.
        turned: the other way round.
    """
    order = ORDERS[key]
    valued: list[tuple[Value, Line]] = []
    rest: list[Line] = []
    for line in lines:
        value = order.value(line)
        if value is None:
            rest.append(line)
        else:
            valued.append((value, line))
    valued.sort(key=lambda pair: pair[0], reverse=order.descending is not turned)
    return [*(line for _, line in valued), *rest]


def select(lines: Iterable[Line], wanted: str) -> list[Line]:
    """The lines that have every word of `wanted` somewhere, whatever their case."""
    words = wanted.casefold().split()
    return [line for line in lines if all(word in _searched(line) for word in words)]


def _searched(line: Line) -> str:
    usage = line.named.usage
    card = "" if line.device is None else line.device.uuid
    pod = f"{line.named.namespace}/{line.named.pod}"
    texts = (pod, line.named.container, usage.layout, usage.state, card, *usage.anomalies)
    return "\n".join(texts).casefold()


def _used(line: Line) -> int | None:
    if line.device is None or isinstance(line.device.total, Absent):
        return None
    return line.device.total


def _share(line: Line) -> float | None:
    used = _used(line)
    if used is None or line.device is None or line.device.limit == 0:
        return None
    return used / line.device.limit


def _sm(line: Line) -> int | None:
    if line.device is None or isinstance(line.device.sm_util, Absent):
        return None
    return line.device.sm_util


ORDERS = {
    "pod": Order(lambda line: "\0".join(line.name), descending=False),
    "container": Order(lambda line: line.named.container, descending=False),
    "state": Order(lambda line: line.named.usage.state, descending=False),
    "layout": Order(lambda line: line.named.usage.layout or None, descending=False),
    "card": Order(lambda line: line.device.uuid if line.device else None, descending=False),
    "memory": Order(_used, descending=True),
    "share": Order(_share, descending=True),
    "sm": Order(_sm, descending=True),
    "kernel": Order(lambda line: line.last_kernel, descending=False),
    "anomalies": Order(lambda line: len(line.named.usage.anomalies), descending=True),
}
"""By column."""
