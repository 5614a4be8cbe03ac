"""Series as rows of little bars: a plot for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from rich.table import Table
from rich.text import Text

from hami_cache.cli.tables import human_bytes, safe, table
from hami_cache.forensics.history_series import Series

BARS = "▁▂▃▄▅▆▇█"
GAP = " "
WIDTH = 28
"""Characters of one line of bars."""

NAME = 36
HUNDRED = 100.0


def sparkline(values: Sequence[float], top: float, width: int = WIDTH) -> str:
    """Values as bars from 0 to `top`; of those that share a bar the highest, a blank for a gap."""
    count = min(width, len(values))
    edges = [round(i * len(values) / count) for i in range(count + 1)] if count else []
    groups = (values[a:b] for a, b in pairwise(edges))
    return "".join(_bar(highest(group), top) for group in groups)


def highest(values: Iterable[float]) -> float:
    """The highest value; NAN where there is none."""
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def series_table(series: Sequence[Series]) -> Table:
    """A row for every device of every cache."""
    rows = table("", "cache", ">#", "memory", ">peak", ">limit", "SM", ">peak %")
    for one in series:
        peak, limit, util = (highest(values) for values in (one.used, one.limit, one.util))
        top = highest((peak, limit))
        rows.add_row(
            _short(one.name),
            str(one.device),
            sparkline(one.used, top),
            _bytes(peak),
            _bytes(limit),
            sparkline(one.util, max(HUNDRED, util)),
            "-" if math.isnan(util) else f"{util:.0f}",
        )
    return rows


def _bar(value: float, top: float) -> str:
    if math.isnan(value):
        return GAP
    share = value / top if top > 0 else 0.0
    return BARS[min(int(share * len(BARS)), len(BARS) - 1)]


def _bytes(value: float) -> str:
    return "-" if math.isnan(value) else human_bytes(int(value))


def _short(name: str) -> Text:
    if len(name) <= NAME:
        return safe(name)
    return safe(f"{name[: NAME // 2]}...{name[-NAME // 2 :]}")
