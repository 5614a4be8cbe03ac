"""Two layouts as one HTML page: the picture, the warning, and every change in words."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from hami_cache.spec.layout import Field
from hami_cache.toolkit import draw
from hami_cache.toolkit.compare import Comparison
from hami_cache.toolkit.shape import Shape

_STYLE = """\
body { font: 14px/1.5 "DejaVu Sans", Arial, sans-serif; margin: 2em; color: #1f2328; }
table { border-collapse: collapse; margin: 1em 0 2em; }
th, td { border: 1px solid #d0d7de; padding: 4px 10px; text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.harmless { color: #57606a; }
.warning { color: #b42318; font-weight: bold; }
svg { max-width: 100%; height: auto; }
"""


def html(comparison: Comparison) -> str:
    """The page; it needs nothing but itself."""
    return "\n".join(_lines(comparison)) + "\n"


def _lines(comparison: Comparison) -> Iterator[str]:
    title = escape(f"{comparison.before.name} and {comparison.after.name}")
    yield '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
    yield f"<title>{title}</title>\n<style>\n{_STYLE}</style></head>\n<body>"
    yield f"<h1>{title}</h1>"
    yield f"<p>{_about(comparison.before)}<br>{_about(comparison.after)}</p>"
    if comparison.indistinguishable:
        yield f'<p class="warning">{escape(draw.WARNING)}</p>'
    yield from _table(comparison)
    yield from (f"<p>{escape(note)}.</p>" for note in comparison.notes)
    yield draw.svg(comparison)
    yield "</body>\n</html>"


def _about(shape: Shape) -> str:
    version = f"version {shape.version}" if shape.version else "no version"
    return escape(f"{shape.name}: {shape.region.sizeof} bytes, {version} in the header")


def _table(comparison: Comparison) -> Iterator[str]:
    if not comparison.changes:
        yield "<p>Every field lies at the same place.</p>"
        return
    yield "<table><tr><th>field<th>was at<th>is at<th>bytes before<th>bytes after<th>change</tr>"
    for change in comparison.changes:
        row = "" if change.breaks else ' class="harmless"'
        numbers = (_number(change.before, "offset"), _number(change.after, "offset"),
                   _number(change.before, "size"), _number(change.after, "size"))  # fmt: skip
        cells = "".join(f'<td class="number">{number}' for number in numbers)
        detail = change.detail if change.breaks else f"{change.detail} (harmless)"
        yield f"<tr{row}><td>{escape(change.path)}{cells}<td>{escape(detail)}</tr>"
    yield "</table>"


def _number(field: Field | None, attribute: str) -> str:
    return "-" if field is None else str(getattr(field, attribute))
