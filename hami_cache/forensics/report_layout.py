"""The picture of a layout, to scale: the whole file, then header, slot and footer byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hami_cache.forensics.report_html import GAP, block, drawing, words
from hami_cache.model import Snapshot
from hami_cache.spec.layout import Field, Layout

WIDTH = 1024.0
ROW_BYTES = 128
"""Bytes of one row of the magnified parts: 8 pixels each."""

SCALE = WIDTH / ROW_BYTES
ROW, TITLE, SPACE = 17.0, 16.0, 12.0
SEEN, MOST_ELEMENTS = 8, 64
"""Bytes of an array's element, and elements, that are drawn one by one."""

LETTER = 5.6
"""Pixels of one letter, about."""

COLOURS = {
    "text": "#cfe3ff", "semaphore": "#e3d2f7", "struct": "#c4ecd0", "signed": "#ffe0a3",
    "unsigned": "#ffe9c7",
}  # fmt: skip
USED_SLOT, FREE_SLOTS, OUTSIDE = "#1a7f37", "#e8f5ec", "#ffd0cc"


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes with one meaning: a field or an element of it, or a gap (None) between two."""

    offset: int
    size: int
    field: Field | None
    index: int | None = None

    @property
    def label(self) -> str:
        """Its name; a gap has none."""
        if self.field is None:
            return ""
        return self.field.logical if self.index is None else f"{self.field.logical}[{self.index}]"

    @property
    def tip(self) -> str:
        """What it is, in words; offsets in bytes."""
        where = f"offset {self.offset}, {self.size} bytes"
        if self.field is None:
            return f"gap: {where}"
        unused = " (unused)" if self.field.padding else ""
        return f"{self.label}{unused}: {self.field.type}, {where}"

    @property
    def fill(self) -> str:
        """Its colour."""
        if self.field is None or self.field.padding:
            return GAP
        return COLOURS[self.field.ctype.kind]


def picture(layout: Layout, snapshot: Snapshot, file_size: int) -> str:
    """The picture of one file.

    Args:
        layout: what the file was read with.
        snapshot: the reading: which slots are in use.
        file_size: in bytes.
    """
    slots = layout.region.get("procs")
    assert slots is not None  # every layout file is checked for it
    parts = list(_parts(layout.region.fields, 0, layout.sizeof))
    header = [part for part in parts if part.offset < slots.offset]
    footer = [part for part in parts if part.offset >= slots.end]
    slot = layout.struct_of(slots)
    body: list[str] = []
    top = _whole(body, layout, slots, snapshot, file_size)
    one = list(_parts(slot.fields, 0, slot.sizeof))
    for title, some, base in (
        (f"header, {slots.offset} bytes", header, 0),
        (f"one of {slots.count} process slots, {slot.sizeof} bytes", one, 0),
        (f"behind the slots, {layout.sizeof - slots.end} bytes", footer, slots.end),
    ):
        top = _magnified(body, title, some, base, top + SPACE)
    return drawing(WIDTH, top, f"layout {layout.name}", body)


def _parts(fields: tuple[Field, ...], start: int, stop: int) -> Iterator[Part]:
    """Fields and gaps in order; offsets from the start of their struct."""
    end = start
    for field in fields:
        if field.offset > end:
            yield Part(end, field.offset - end, None)
        yield from _elements(field)
        end = field.end
    if stop > end:
        yield Part(end, stop - end, None)


def _elements(field: Field) -> Iterator[Part]:
    """A field's elements, where they are large enough to be seen."""
    step = field.ctype.size
    if not field.array or step < SEEN or field.count > MOST_ELEMENTS:
        yield Part(field.offset, field.size, field)
        return
    for index in range(field.count):
        yield Part(field.offset + index * step, step, field, index)


def _whole(
    body: list[str], layout: Layout, slots: Field, snapshot: Snapshot, file_size: int
) -> float:
    """The whole file as one bar; returns where it ends."""
    size = max(file_size, layout.sizeof)
    scale = WIDTH / size
    body.append(words(0, TITLE - 4, f"the whole file, {file_size} bytes, to scale"))

    def bar(start: int, stop: int, fill: str, tip: str, line: str = "#57606a") -> None:
        width = max((stop - start) * scale, 0.6)
        body.append(block(start * scale, TITLE, width, ROW, fill, tip, line=line))

    bar(0, slots.offset, COLOURS["text"], f"header: {slots.offset} bytes")
    bar(slots.offset, slots.end, FREE_SLOTS, f"{slots.count} process slots")
    for slot in snapshot.slots:
        start = slots.offset + slot.index * slots.ctype.size
        tip = f"procs[{slot.index}] at offset {start}: pid {slot.pid}"
        bar(start, start + slots.ctype.size, USED_SLOT, tip, USED_SLOT)
    bar(slots.end, layout.sizeof, COLOURS["signed"], f"behind the slots: offset {slots.end}")
    if file_size > layout.sizeof:
        bar(layout.sizeof, file_size, OUTSIDE, f"{file_size - layout.sizeof} bytes beyond")
    return TITLE + ROW


def _magnified(body: list[str], title: str, parts: list[Part], base: int, top: float) -> float:
    """Some parts byte by byte, in rows; returns where they end."""
    body.append(words(0, top + TITLE - 4, f"{title}, {ROW_BYTES} in a row"))
    top += TITLE
    end = top
    for part in parts:
        label = part.label
        for start, stop in _rows(part.offset - base, part.size):
            x, y = start % ROW_BYTES * SCALE, top + start // ROW_BYTES * ROW
            width = (stop - start) * SCALE
            body.append(block(x, y, width, ROW, part.fill, part.tip))
            if label and width >= len(label) * LETTER + 4:
                body.append(words(x + 3, y + 12, label))
                label = ""
            end = max(end, y + ROW)
    return end


def _rows(offset: int, size: int) -> Iterator[tuple[int, int]]:
    """A run of bytes cut where rows end."""
    start, end = offset, offset + size
    while start < end:
        stop = min(end, (start // ROW_BYTES + 1) * ROW_BYTES)
        yield start, stop
        start = stop
