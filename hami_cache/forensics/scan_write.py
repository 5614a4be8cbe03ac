"""Rows as JSON lines and CSV: one line a file, written as the rows come."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from typing import TextIO

from hami_cache.absent import Absent
from hami_cache.errors import one_line
from hami_cache.forensics.scan_row import Row, document

FORMULA = ("=", "+", "-", "@")
"""How a cell begins that spreadsheets take for a program."""


def write_jsonl(rows: Iterable[Row], out: TextIO) -> None:
    """One JSON object a line."""
    for row in rows:
        out.write(json.dumps(document(row)) + "\n")


def csv_columns(devices: int) -> list[str]:
    """The names of the CSV columns."""
    figures = (f"{name}_{index}" for index in range(devices) for name in ("used", "absent"))
    return [
        "file", "size", "layout", "verdict", "confidence", "processes", "devices", "used", "absent",
        "anomalies", "error", *figures,
    ]  # fmt: skip


def write_csv(rows: Iterable[Row], out: TextIO, devices: int) -> None:
    """Comma-separated values with a header; of an absent figure the reason beside an empty cell.

    Args:
        rows: to write.
        out: where; opened with ``newline=""``.
        devices: how many have columns: as many as any layout has room for.
    """
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(csv_columns(devices))
    for row in rows:
        lines.writerow(_cells(row, devices))


def _cells(row: Row, devices: int) -> Iterator[object]:
    known = row.devices or ()
    yield _file(row.file)
    yield from (row.size, row.layout, row.verdict, row.confidence, row.processes)
    yield None if row.devices is None else len(row.devices)
    yield from _figure(row.used)
    yield " ".join(f"{kind}:{count}" for kind, count in sorted(row.anomalies.items()))
    yield None if row.error is None else one_line(row.error)
    for index in range(devices):
        yield from _figure(known[index].used if index < len(known) else None)


def _figure(value: int | Absent | None) -> tuple[int | None, str | None]:
    """A figure's cells: its value or why there is none; both empty where there is no such thing."""
    return (None, value.reason) if isinstance(value, Absent) else (value, None)


def _file(name: str) -> str:
    """A tenant's file name on one line, and never a formula."""
    shown = one_line(name)
    return f"./{shown}" if shown.startswith(FORMULA) else shown
