"""The few HTML and SVG pieces that a report is made of. Every text goes through `text`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from hami_cache.absent import Absent
from hami_cache.errors import one_line
from hami_cache.model import Figure
from hami_cache.quantities import human_bytes

LONGEST = 300
"""Characters of one text that are shown."""

CLASSES = {">": "n", "~": "long"}

GAP_PATTERN = (
    '<pattern id="gap" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="6" height="6" fill="#fff"/>'
    '<line x1="0" y1="0" x2="0" y2="6" stroke="#b8c0c8" stroke-width="2"/></pattern>'
)
GAP = "url(#gap)"
"""The fill of bytes that hold nothing."""


def text(value: object) -> str:
    """Anything as text between tags or in an attribute: escaped, on one line, not too long."""
    shown = one_line(str(value))
    return escape(shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}...")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table.

    Args:
        columns: titles; one that begins with ``>`` is of numbers, aligned to the right, one that
            begins with ``~`` of long texts, on several lines.
        rows: cells, ready to stand between tags.
    """
    kinds = [f' class="{CLASSES[c[0]]}"' if c[:1] in CLASSES else "" for c in columns]
    titles = (text(column.lstrip(">~")) for column in columns)
    head = "".join(f"<th{kind}>{title}" for kind, title in zip(kinds, titles, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{cell}' for kind, cell in zip(kinds, row, strict=True))}</tr>"
        for row in rows
    )
    whole = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="table"><table>{whole}</table></div>'


def size(value: Figure) -> str:
    """Bytes in a cell: a number stays on its line, the reason of an absence may be broken."""
    shown = text(human_bytes(value))
    return shown if isinstance(value, Absent) else shown.replace(" ", "&nbsp;")


def badge(word: str, kind: str) -> str:
    """A word in a colour: `kind` is ``error``, ``warning``, ``info`` or ``fine``."""
    return f'<span class="badge {kind}">{text(word)}</span>'


def drawing(width: float, height: float, label: str, body: Iterable[str]) -> str:
    """A picture inside the page; sizes in pixels."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'role="img" aria-label="{text(label)}">{"".join(body)}</svg>'
    )


def block(
    x: float, y: float, width: float, height: float, fill: str, tip: str, *, line: str = "#57606a"
) -> str:
    """A rectangle that says what it is when the pointer rests on it."""
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{fill}" '
        f'stroke="{line}" stroke-width=".7"><title>{text(tip)}</title></rect>'
    )


def words(x: float, y: float, what: str) -> str:
    """One line of small text in a picture; `y` is its base line."""
    return f'<text x="{x:.2f}" y="{y:.2f}" font-size="9.5">{text(what)}</text>'
