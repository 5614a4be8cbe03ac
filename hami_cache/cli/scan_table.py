"""A scan for people: a line a file, then the counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from hami_cache.cli.tables import human_bytes
from hami_cache.errors import one_line
from hami_cache.forensics.scan_row import Row
from hami_cache.forensics.scan_summary import Summary

COLUMNS = ("verdict", "layout", "sure", "devices", "processes", "used", "file and anomalies")
FORM = "{:<16}{:<12}{:>5}{:>9}{:>11}{:>30}  {}\n"


def write_table(rows: Iterable[Row], out: TextIO) -> None:
    """A line a file, aligned without knowing the rows to come."""
    out.write(FORM.format(*COLUMNS))
    for row in rows:
        out.write(_line(row))


def _line(row: Row) -> str:
    text = one_line(row.file)
    if row.error is not None:
        text += f": {one_line(row.error)}"
    if row.anomalies:
        text += f"  [{', '.join(_times(*item) for item in sorted(row.anomalies.items()))}]"
    return FORM.format(
        row.verdict if row.error is None else "unreadable",
        row.layout or "-",
        "-" if row.confidence is None else f"{row.confidence:.0%}",
        "-" if row.devices is None else len(row.devices),
        "-" if row.processes is None else row.processes,
        "-" if row.used is None else human_bytes(row.used),
        text,
    )


def _times(kind: str, count: int) -> str:
    return kind if count == 1 else f"{kind} x{count}"


def summary_lines(summary: Summary) -> Iterator[str]:
    """The counts of all files together, the most frequent first."""
    yield f"{summary.files} file{'' if summary.files == 1 else 's'}"
    for title, counts in (
        ("layout", summary.layouts),
        ("verdict", summary.verdicts),
        ("anomaly", summary.anomalies),
    ):
        if counts:
            named = ", ".join(f"{name} {count}" for name, count in counts.most_common())
            yield f"  {title:<8} {named}"
