"""The heat map of the process slots: where they lie, who uses them, how much memory each holds."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from hami_cache.absent import Absent, total
from hami_cache.forensics.report_html import block, drawing, text
from hami_cache.model import Figure, Slot, Snapshot
from hami_cache.quantities import human_bytes
from hami_cache.spec.layout import Layout

SIGN = 1 << 63
COLUMNS = 64
CELL = 16.0
SMALLEST, LARGEST = 20, 40
"""The colours go from 2^20 bytes (1 MiB) to 2^40 (1 TiB), by the logarithm."""

PALE, DARK = (255, 237, 204), (153, 27, 27)
NOTHING, UNKNOWN = "#d8e6f5", "#b57edc"
"""A slot without memory, and one whose figures cannot be trusted."""

BACKGROUND, SUSPICIOUS, NOT_COUNTED = "#f0f2f4", "#d00000", "#8c959f"


def heat_map(layout: Layout, snapshot: Snapshot, suspicious: Collection[int]) -> str:
    """The slots as cells, row by row; those that nobody ever used stay pale.

    Args:
        layout: what the file was read with.
        snapshot: the reading.
        suspicious: slots that an anomaly names.
    """
    count = layout.field("procs").count
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    cells = (_cell(slot, columns, slot.index in suspicious) for slot in snapshot.slots)
    grid = (
        f'<pattern id="cells" width="{CELL:g}" height="{CELL:g}" patternUnits="userSpaceOnUse">'
        f'<rect width="{CELL:g}" height="{CELL:g}" fill="{BACKGROUND}" stroke="#fff"/></pattern>'
        f'<rect width="{columns * CELL:g}" height="{rows * CELL:g}" fill="url(#cells)"/>'
    )
    label = f"{len(snapshot.slots)} of {count} slots"
    return drawing(columns * CELL, rows * CELL, label, [grid, *cells]) + _legend()


def memory(slot: Slot) -> Figure:
    """Bytes that a slot holds on all devices together."""
    for device, use in enumerate(slot.used):
        if isinstance(use.total, int) and use.total >= SIGN:
            return Absent("counter_underflow", f"procs[{slot.index}].used[{device}].total")
    return total(use.total for use in slot.used)


def colour(held: Figure) -> str:
    """The colour of a slot that holds so many bytes."""
    if isinstance(held, Absent):
        return UNKNOWN
    if held == 0:
        return NOTHING
    share = (math.log2(held) - SMALLEST) / (LARGEST - SMALLEST)
    share = min(max(share, 0.0), 1.0)
    channels = (round(a + (b - a) * share) for a, b in zip(PALE, DARK, strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def _cell(slot: Slot, columns: int, suspicious: bool) -> str:
    held = memory(slot)
    counted = "counted" if slot.counted else "not counted"
    tip = (
        f"procs[{slot.index}]: pid {slot.pid}, host pid {slot.hostpid}, status {slot.status}, "
        f"{counted}, {slot.verdict}, {human_bytes(held)}"
    )
    line = SUSPICIOUS if suspicious else "#24292f" if slot.counted else NOT_COUNTED
    x, y = slot.index % columns * CELL, slot.index // columns * CELL
    return block(x + 1.5, y + 1.5, CELL - 3, CELL - 3, colour(held), tip, line=line)


def _legend() -> str:
    samples: Iterator[tuple[str, str, str]] = iter(
        [
            (BACKGROUND, "#fff", "free"),
            (NOTHING, "#24292f", "no memory"),
            (colour(1 << 20), "#24292f", "1 MiB"),
            (colour(1 << 30), "#24292f", "1 GiB"),
            (colour(1 << 40), "#24292f", "1 TiB"),
            (UNKNOWN, "#24292f", "not to be trusted"),
            (NOTHING, NOT_COUNTED, "not counted"),
            (NOTHING, SUSPICIOUS, "named by an anomaly"),
        ]
    )
    items = (
        f"<li>{drawing(14, 14, '', [block(1, 1, 12, 12, fill, label, line=line)])} {text(label)}"
        for fill, line, label in samples
    )
    return f'<ul class="legend">{"".join(items)}</ul>'
