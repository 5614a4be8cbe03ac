"""How far a scan is: a bar on a terminal, nothing anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import TextIOBase
from typing import TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hami_cache.forensics import scan_run
from hami_cache.forensics.scan_inputs import Choice, is_url
from hami_cache.forensics.scan_row import Row

EVERY = 50
"""Rows after which the terminal is told."""

Watch = Callable[[Iterable[Row]], Iterable[Row]]


@contextmanager
def progress(
    inputs: Iterable[str], choice: Choice, *, beside: bool
) -> Iterator[tuple[Watch, TextIO]]:
    """Show a bar while rows are taken.

    Args:
        inputs: of the scan, to know how many files there will be.
        choice: of the scan.
        beside: the rows go to standard output.

    Yields:
        What to pass the rows through, and the stream to write them to.
    """
    mingled = beside and sys.stdout.isatty()
    console = Console(stderr=not mingled)
    if not console.is_terminal:
        yield iter, sys.stdout
        return
    columns = (
        TextColumn("scanning"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(
        *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    )
    with bar:
        task = bar.add_task("", total=_total(inputs, choice))

        def watched(rows: Iterable[Row]) -> Iterator[Row]:
            for count, row in enumerate(rows, 1):
                yield row
                if count % EVERY == 0:
                    bar.update(task, completed=count)

        above = _Above(console)
        yield watched, cast(TextIO, above) if mingled else sys.stdout
        above.flush()


def _total(inputs: Iterable[str], choice: Choice) -> int | None:
    """How many files there are; None where only looking into them tells."""
    count = 0
    for name in inputs:
        if is_url(name):
            return None
        for place in scan_run.find([name], choice):
            if place.kind == "archive":
                return None
            count += 1
    return count


class _Above(TextIOBase):
    """Lines that scroll by above the bar, some at a time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: list[str] = []

    def write(self, text: str) -> int:
        self._lines.append(text)
        if len(self._lines) >= EVERY:
            self.flush()
        return len(text)

    def flush(self) -> None:
        if self._lines:
            self._console.out("".join(self._lines), end="", highlight=False)
            self._lines.clear()
