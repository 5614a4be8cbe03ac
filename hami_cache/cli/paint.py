"""Rows of a hexdump: bytes, their text, and what they are; coloured piece by piece."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from rich.text import Text

from hami_cache.cli.tables import safe
from hami_cache.forensics import values
from hami_cache.forensics.annotate import Piece

CYCLE = ("cyan", "green", "yellow", "blue", "bright_cyan", "bright_green")
"""Neighbouring fields get different colours."""

STYLES = {"padding": "dim", "gap": "dim magenta", "beyond": "red", "unknown": ""}
NAMES = {"gap": "(gap)", "beyond": "(beyond the region)"}
CHANGED = "reverse"

ROW = 8
"""Bytes in a row of named fields: most fields have no more."""

UNNAMED_ROW = 16
"""Bytes in a row where no layout is known."""


def paint(found: Iterable[Piece], data: bytes, changed: Collection[int] = ()) -> Iterator[Text]:
    """The rows of some pieces.

    Args:
        found: the pieces, in order.
        data: the bytes that they are cut from.
        changed: offsets of bytes to set off.
    """
    for number, piece in enumerate(found):
        style = STYLES.get(piece.kind, CYCLE[number % len(CYCLE)])
        first = True
        for start, size in _rows(piece, data):
            row = _bytes(piece, data[start : start + size], start, style, changed)
            if first:
                row.append_text(_label(piece, style))
            row.rstrip()
            yield row
            first = False


def _rows(piece: Piece, data: bytes) -> Iterator[tuple[int, int]]:
    """Offset and size of each row; zeros longer than a row are one row."""
    width = UNNAMED_ROW if piece.kind == "unknown" else ROW
    stop = piece.offset + piece.size
    at = piece.offset
    while at < stop:
        size = min(width, stop - at)
        if not any(data[at : at + size]):
            while at + size < stop and not any(data[at + size : at + size + width]):
                size = min(size + width, stop - at)
        yield at, size
        at += size


def _bytes(piece: Piece, raw: bytes, start: int, style: str, changed: Collection[int]) -> Text:
    width = UNNAMED_ROW if piece.kind == "unknown" else ROW
    row = Text(f"{start:08x}  ")
    if len(raw) > width:
        row.append(f"00 x {len(raw)}".ljust(4 * width + 2), style)
        return row
    for offset, byte in enumerate(raw):
        mark = f"{style} {CHANGED}" if start + offset in changed else style
        row.append(f"{byte:02x}", mark.strip())
        row.append(" ")
    row.append("   " * (width - len(raw)) + " ")
    shown = "".join(chr(b) if 32 <= b < 127 else "." for b in raw)
    row.append(shown.ljust(width), style)
    row.append("  ")
    return row


def _label(piece: Piece, style: str) -> Text:
    label = Text(piece.label or NAMES.get(piece.kind, ""), style)
    if piece.kind == "padding":
        label.append(" (padding)", style)
    if piece.value is not None:
        label.append(" = ")
        label.append_text(safe(values.text(piece.value)))
    return label
