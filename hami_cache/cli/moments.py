"""Options that choose a part of a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hami_cache.cli.options import moment

if TYPE_CHECKING:
    from hami_cache.forensics.history import Sample

Function = TypeVar("Function", bound=Callable[..., Any])


def part_options(function: Function) -> Function:
    """``--since``, ``--until`` and ``--cache``."""
    for option in (
        click.option("--cache", default="", help="Only caches whose name contains this."),
        click.option(
            "--until", callback=moment, metavar="TIME", help="Leave out what is later than this."
        ),
        click.option(
            "--since",
            callback=moment,
            metavar="TIME",
            help="Leave out what is earlier: seconds since 1970 or ISO 8601.",
        ),
    ):
        function = option(function)
    return function


def part(path: Path, since: float | None, until: float | None, cache: str) -> Iterator[Sample]:
    """The samples of a recording that were asked for."""
    from hami_cache.forensics.history import Sample, replay

    for sample in replay(path):
        if since is not None and sample.time < since:
            continue
        if until is not None and sample.time > until:
            return
        yield Sample(sample.time, {n: d for n, d in sample.caches.items() if cache in n})


def written(time: float) -> str:
    """A time for people and machines: ISO 8601, UTC, milliseconds."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
