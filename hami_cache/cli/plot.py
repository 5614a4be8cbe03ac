"""``hami-cache plot``: a recording as a picture, or as bars in the terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hami_cache.cli.moments import part, part_options, written

POINTS = 2000
"""Points of one line of a picture: more than it has pixels."""


@click.command()
@click.argument("recording", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Draw a picture: a path ending in .png or .svg."
)
@part_options
def plot(
    recording: Path, out: Path | None, since: float | None, until: float | None, cache: str
) -> int:
    """Show memory and utilization over time: bars in the terminal, or a picture with --out.

    Where many samples share a point, it has the highest of them. A gap is a time without a figure.
    """
    from hami_cache.forensics.history_series import collect

    count = sum(1 for _ in part(recording, since, until, cache))
    series = collect(part(recording, since, until, cache), group=-(-count // POINTS) or 1)
    if out is None:
        from hami_cache.cli.sparkline import series_table
        from hami_cache.cli.tables import console

        if series:
            times = series[0].times
            print(f"{count} samples from {written(times[0])} to {written(times[-1])}")
        console().print(series_table(series))
        return 0
    from hami_cache.forensics.history_plot import MOST, draw

    if left_out := draw(series, out):
        print(f"hami-cache: {left_out} devices are left out: {MOST} are drawn", file=sys.stderr)
    return 0
