"""A recording as a picture: memory and utilization over time. Needs the extra ``plot``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from hami_cache.errors import ConfigError, one_line
from hami_cache.forensics.extras import needed
from hami_cache.forensics.history_series import NAN, Series

ENDINGS = (".png", ".svg")
MOST = 20
"""Series that are drawn; more lines nobody can tell apart."""

GIB = float(1 << 30)
BREAK = 5
"""A line breaks where samples are further apart than so many usual intervals."""

LABEL = 48
DOTTED = 50
"""So many points or fewer are marked: a line of one point would not show."""


def draw(series: Sequence[Series], path: Path | str) -> int:
    """Draw the series with the highest memory use.

    Args:
        series: of one recording.
        path: of the picture; its ending says the format: .png or .svg.

    Returns:
        How many were left out.

    Raises:
        ConfigError: matplotlib is missing, or the picture cannot be written.
    """
    if Path(path).suffix not in ENDINGS:
        raise ConfigError(f"a picture ends with {' or '.join(ENDINGS)}", path=path)
    figure = needed("matplotlib.figure", "plot").Figure(figsize=(12, 8), layout="constrained")
    needed("matplotlib.backends.backend_agg", "plot").FigureCanvasAgg(figure)
    memory, util = figure.subplots(2, sharex=True)
    chosen = sorted(series, key=_peak, reverse=True)[:MOST]
    colours = needed("matplotlib", "plot").colormaps["tab20"].colors
    for one, colour in zip(sorted(chosen, key=_place), colours, strict=False):
        times = [datetime.fromtimestamp(time, UTC) for time in one.times]
        mark = ".-" if len(times) <= DOTTED else "-"
        used, limit = ([value / GIB for value in values] for values in (one.used, one.limit))
        memory.plot(*_broken(times, used), mark, color=colour, label=_label(one))
        memory.plot(*_broken(times, limit), ":", color=colour)
        util.plot(*_broken(times, one.util), mark, color=colour)
    memory.set_ylabel("memory in use, GiB\n(dotted: limit)")
    util.set_ylabel("SM utilization, %")
    util.set_xlabel("time, UTC")
    dates = needed("matplotlib.dates", "plot")
    util.xaxis.set_major_formatter(dates.ConciseDateFormatter(dates.AutoDateLocator()))
    for axes in (memory, util):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    if chosen:
        legend = figure.legend(loc="outside lower center", ncols=2, fontsize="small")
        for text in legend.get_texts():
            text.set_parse_math(False)  # a name may have a dollar sign
    try:
        figure.savefig(path)
    except OSError as error:
        raise ConfigError(f"cannot write: {error.strerror}", path=path) from None
    return len(series) - len(chosen)


def _peak(series: Series) -> float:
    return max((v for v in series.used if not math.isnan(v)), default=-1.0)


def _place(series: Series) -> tuple[str, int]:
    return series.name, series.device


def _label(series: Series) -> str:
    name = one_line(series.name).encode("ascii", "backslashreplace").decode()
    if len(name) > LABEL:
        name = f"{name[: LABEL // 2]}...{name[-LABEL // 2 :]}"
    return f"device {series.device} of {name}"  # a label that begins with _ would be left out


def _broken(times: Sequence[datetime], values: Sequence[float]) -> tuple[list[Any], list[float]]:
    """A line's points, with a gap wherever the recorder did not run."""
    steps = [(b - a).total_seconds() for a, b in pairwise(times)]
    usual = median(steps) if steps else 0.0
    xs: list[Any] = []
    ys: list[float] = []
    for time, value, step in zip(times, values, [0.0, *steps], strict=True):
        if step > BREAK * usual:
            xs.append(time)
            ys.append(NAN)
        xs.append(time)
        ys.append(value)
    return xs, ys
