"""The differences between two cache files, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from hami_cache.cli.tables import console, safe, table
from hami_cache.forensics import values
from hami_cache.forensics.diff import Change
from hami_cache.forensics.image import Image


def print_changes(before: Image, after: Image, changes: Sequence[Change]) -> None:
    """Two lines that say what is compared, then a row for every change."""
    out = console()
    for sign, image in (("-", before), ("+", after)):
        line = Text.assemble(f"{sign} ", safe(image.file), ": ", (image.layout.name, "bold"))
        line.append(f", {image.found.verdict}, {image.size} bytes")
        out.print(line)
    if not changes:
        out.print("No field differs.")
        return
    rows = table("", "field", ">before", ">after", ">change")
    rows.title = None
    for change in changes:
        rows.add_row(
            change.where, _shown(change.before), _shown(change.after), _delta(change.delta)
        )
    out.print(rows)


def _shown(value: values.Value | None) -> Text:
    return Text("not in the layout", "dim") if value is None else safe(values.text(value))


def _delta(delta: int | None) -> Text:
    return Text("" if delta is None else f"{delta:+d}", "green" if (delta or 0) > 0 else "red")
