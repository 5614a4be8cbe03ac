"""Two layouts as a picture: what differs side by side and to scale, moved blocks joined.

A field longer than `CUT_BYTES` is drawn shortened, with a torn edge, and a little taller where it
has grown; all else has its true height.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hami_cache.spec.layout import Field, Struct
from hami_cache.toolkit.compare import Change, Comparison, StructPair
from hami_cache.toolkit.shape import gaps
from hami_cache.toolkit.svgparts import GREY, HATCHED, band, document, group, rect, tear, text

CUT_BYTES = 64
CUT_HEIGHT, GROWN_CUT_HEIGHT = 40.0, 60.0
LINE_HEIGHT = 12.0
"""A block this tall has room for its name."""

BLOCK_WIDTH, JOIN_WIDTH, OFFSET_WIDTH, MARGIN = 270.0, 130.0, 64.0, 16.0
LEFT = MARGIN + OFFSET_WIDTH
RIGHT = LEFT + BLOCK_WIDTH + JOIN_WIDTH
WIDTH = RIGHT + BLOCK_WIDTH + OFFSET_WIDTH + MARGIN
TITLE_HEIGHT, PANEL_GAP, HEAD_HEIGHT = 30.0, 26.0, 92.0

COLOURS: Mapping[str, tuple[str, str]] = {
    "moved": ("#ffe0a3", "#b26a00"),
    "resized": ("#e3d2f7", "#6f42c1"),
    "added": ("#c4ecd0", "#1a7f37"),
    "removed": ("#ffd0cc", "#b42318"),
    "renamed": ("#cfe3ff", "#0b5cad"),
    "same": ("#eef1f4", "#9aa5b1"),
    "unused or padding": (HATCHED, "#c3cad2"),
}
"""Fill and line of a block by what became of it."""

WORST_FIRST = ("added", "removed", "resized", "retyped", "moved", "renamed")

WARNING = "SAME SIZE AND VERSION, BUT DIFFERENT: no reader can tell them apart by the header"

Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Block:
    """A field as it is drawn, or a gap (None) that alignment leaves; pixels from the top."""

    field: Field | None
    tip: str
    top: float
    height: float
    cut: bool

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.top + self.height


def svg(comparison: Comparison) -> str:
    """The picture as one SVG document that needs nothing else."""
    body = list(_heading(comparison))
    top = HEAD_HEIGHT
    for pair in comparison.structs:
        if _differs(pair, comparison):
            elements, bottom = _panel(pair, comparison.changes, top)
            body += elements
            top = bottom + PANEL_GAP
    return document(WIDTH, top, body)


def _differs(pair: StructPair, comparison: Comparison) -> bool:
    """Whether a struct is worth a panel: the region always is."""
    changed = any(change.path.rpartition(".")[0] == pair.path for change in comparison.changes)
    return changed or not pair.path or pair.before is None or pair.after is None


def _heading(comparison: Comparison) -> Iterator[str]:
    names = f"{comparison.before.name}  →  {comparison.after.name}"
    yield text(MARGIN, 24, names, size=16, weight="bold")
    for index, (label, (fill, line)) in enumerate(COLOURS.items()):
        x = MARGIN + index * 76
        yield rect(x, 36, 12, 12, fill, line)
        yield text(x + 17, 46, label)
    note = f"to scale; fields of more than {CUT_BYTES} bytes are cut short (torn edge)"
    yield text(MARGIN, 62, note, fill=GREY)
    if comparison.indistinguishable:
        yield text(MARGIN, 80, WARNING, size=12, weight="bold", fill=COLOURS["removed"][1])


def _panel(pair: StructPair, changes: Sequence[Change], top: float) -> tuple[list[str], float]:
    """One struct, both versions: its elements, and where it ends."""
    titled = pair.after or pair.before
    assert titled is not None  # no pair is empty
    name = f"{titled.name}  ({pair.path}[])" if pair.path else titled.name
    elements = [text(LEFT, top + 10, name, size=12, weight="bold")]
    columns: dict[Side, list[Block]] = {}
    sides: tuple[tuple[Side, Struct | None, float], ...] = (
        ("left", pair.before, LEFT),
        ("right", pair.after, RIGHT),
    )
    for side, struct, x in sides:
        size = f"{struct.sizeof} bytes" if struct else "not there"
        elements.append(text(x, top + 24, size, fill=GREY))
        columns[side] = _column(struct, pair, top + TITLE_HEIGHT)
    for before, after in pair.fields:
        joined = [_find(columns["left"], before), _find(columns["right"], after)]
        elements += _join(
            joined[0], joined[1], _look(before or after, _change(pair, before or after, changes))
        )
    for side, _, x in sides:
        for block in columns[side]:
            change = _change(pair, block.field, changes)
            elements.append(group(block.tip, _block(block, change, x, side)))
    bottoms = [block.bottom for blocks in columns.values() for block in blocks]
    return elements, max(bottoms)


def _column(struct: Struct | None, pair: StructPair, top: float) -> list[Block]:
    """The blocks of one struct from the top down."""
    if struct is None:
        return []
    scale = _scale(pair)
    grown = {
        id(b if b.size > a.size else a) for a, b in pair.fields if a and b and a.size != b.size
    }
    parts: list[tuple[int, int, Field | None]] = [(f.offset, f.size, f) for f in struct.fields]
    parts += [(offset, length, None) for offset, length in gaps(struct)]
    blocks = []
    for offset, size, field in sorted(parts, key=lambda part: part[:2]):
        cut = size > CUT_BYTES
        height = (GROWN_CUT_HEIGHT if id(field) in grown else CUT_HEIGHT) if cut else size * scale
        tip = f"{size} bytes of alignment padding at {offset}"
        if field is not None:
            tip = f"{field.name}: {field.type}, {size} bytes at {offset}"
        blocks.append(Block(field, tip, top, height, cut))
        top += height
    return blocks


def _scale(pair: StructPair) -> float:
    """Pixels a byte, so that the smallest field has room for its name."""
    structs = [struct for struct in (pair.before, pair.after) if struct]
    smallest = min((f.size for s in structs for f in s.fields if f.size), default=8)
    return LINE_HEIGHT / min(smallest, 8)


def _find(blocks: Sequence[Block], field: Field | None) -> Block | None:
    return next((block for block in blocks if field is not None and block.field is field), None)


def _change(pair: StructPair, field: Field | None, changes: Sequence[Change]) -> Change | None:
    """What became of a field; one of a struct that only one side has came or went with it."""
    if field is None:
        return None
    for change in changes:
        if change.before is field or change.after is field:
            return change
    if pair.before is None:
        return Change(field.name, "", None, field, ("added",), True, "added")
    if pair.after is None:
        return Change(field.name, "", field, None, ("removed",), True, "removed")
    return None


def _look(field: Field | None, change: Change | None) -> str:
    if field is None or field.padding:
        return "unused or padding"
    if change is None:
        return "same"
    worst = next(kind for kind in WORST_FIRST if kind in change.kinds)
    return "resized" if worst == "retyped" else worst


def _block(block: Block, change: Change | None, x: float, side: Side) -> Iterator[str]:
    field = block.field
    fill, line = COLOURS[_look(field, change)]
    yield rect(x, block.top, BLOCK_WIDTH, block.height, fill, line, "none" if field else "3 2")
    if block.cut:
        yield tear(x, block.top + block.height * 0.8, BLOCK_WIDTH, line)
    if field is None or block.height < LINE_HEIGHT:
        return
    middle = block.top + block.height * (0.4 if block.cut else 0.5) + 3.5
    name = f"{field.name}[{field.count}]" if field.array else field.name
    yield text(x + 6, middle, name, weight="bold" if change and change.breaks else "normal")
    size = f"{field.count} x {field.ctype.size}" if field.array else f"{field.size}"
    note = _note(change, side) or f"{size} bytes"
    yield text(x + BLOCK_WIDTH - 6, middle, note, anchor="end", fill=GREY)
    edge, anchor = (x - 6, "end") if side == "left" else (x + BLOCK_WIDTH + 6, "start")
    yield text(edge, block.top + 9, str(field.offset), anchor=anchor, fill=GREY)


def _note(change: Change | None, side: Side) -> str:
    """The few words that a block has room for; what moved is said where it moved to."""
    if change is None:
        return ""
    before, after = change.before, change.after
    if before is None or after is None:
        return change.kinds[0]
    if side == "left":
        return ""
    words = [f"moved {after.offset - before.offset:+}"] if "moved" in change.kinds else []
    words += [_growth(before, after)] if "resized" in change.kinds else []
    words += [f"was {before.type}"] if "retyped" in change.kinds else []
    words += [f"was {before.name}"] if "renamed" in change.kinds else []
    return ", ".join(words)


def _growth(before: Field, after: Field) -> str:
    if before.array and after.array and before.count == after.count:
        return f"{before.ctype.size} → {after.ctype.size} bytes each"
    if before.array and after.array and before.ctype.size == after.ctype.size:
        return f"{before.count} → {after.count} elements"
    return f"{before.size} → {after.size} bytes"


def _join(left: Block | None, right: Block | None, look: str) -> Iterator[str]:
    """The band between a block's two places."""
    if left and right:
        fill, line = COLOURS[look]
        quiet = look in ("same", "unused or padding")
        yield band(
            (LEFT + BLOCK_WIDTH, left.top, left.bottom),
            (RIGHT, right.top, right.bottom),
            "#ffffff" if fill == HATCHED else fill,
            line,
            0.35 if quiet else 0.75,
        )
