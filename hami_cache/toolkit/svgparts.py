"""The few SVG elements that the picture of two layouts is made of."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

HATCHED = "url(#gap)"
"""The fill of bytes that hold nothing."""

GREY = "#57606a"
TEETH = 18

_PATTERN = (
    '<defs><pattern id="gap" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="6" height="6" fill="#ffffff"/>'
    '<line x1="0" y1="0" x2="0" y2="6" stroke="#c3cad2" stroke-width="2"/></pattern></defs>'
)


def document(width: float, height: float, body: Iterable[str]) -> str:
    """A whole SVG document; sizes in pixels."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="DejaVu Sans, Arial, sans-serif">'
    )
    paper = f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>'
    return "\n".join([head, _PATTERN, paper, *body, "</svg>"]) + "\n"


def group(tip: str, body: Iterable[str]) -> str:
    """Elements with a text that shows when the pointer rests on them."""
    return f"<g><title>{escape(tip)}</title>{''.join(body)}</g>"


def rect(
    x: float, y: float, width: float, height: float, fill: str, line: str, dash: str = "none"
) -> str:
    """A rectangle."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" '
        f'stroke="{line}" stroke-width="0.8" stroke-dasharray="{dash}"/>'
    )


def text(
    x: float, y: float, words: str, *, size: float = 10, weight: str = "normal",
    anchor: str = "start", fill: str = "#1f2328",
) -> str:  # fmt: skip
    """One line of text; `y` is its base line."""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{fill}">{escape(words)}</text>'
    )


def band(
    left: tuple[float, float, float],
    right: tuple[float, float, float],
    fill: str,
    line: str,
    opacity: float,
) -> str:
    """A band between two vertical edges, each as (x, top, bottom)."""
    x, top, bottom = left
    end, end_top, end_bottom = right
    corners = f"{x:g},{top:g} {end:g},{end_top:g} {end:g},{end_bottom:g} {x:g},{bottom:g}"
    return (
        f'<polygon points="{corners}" fill="{fill}" fill-opacity="{opacity:g}" '
        f'stroke="{line}" stroke-opacity="{opacity:g}" stroke-width="0.6"/>'
    )


def tear(x: float, y: float, width: float, line: str) -> str:
    """A white zigzag across a block that is longer than it is drawn."""
    step = width / TEETH
    edge = [(x + i * step, y + (3 if i % 2 else -3)) for i in range(TEETH + 1)]
    points = [*edge, *((px, py + 4) for px, py in reversed(edge))]
    corners = " ".join(f"{px:g},{py:g}" for px, py in points)
    return f'<polygon points="{corners}" fill="#ffffff" stroke="{line}" stroke-width="0.8"/>'
