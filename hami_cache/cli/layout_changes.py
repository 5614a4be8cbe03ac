"""How `layout check` and `layout diff` show what differs between two structs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from hami_cache.cli.tables import safe, table
from hami_cache.spec import registry, specfile
from hami_cache.spec.layout import Field, Layout
from hami_cache.toolkit.compare import Change, Comparison
from hami_cache.toolkit.shape import Shape


def layout_called(name: str, folder: Path | None) -> Layout:
    """A known layout by its name, or one by the path of its TOML file."""
    return specfile.load(Path(name)) if name.endswith(".toml") else registry.layout(name, folder)


def changes_json(comparison: Comparison) -> list[dict[str, Any]]:
    """Every change; offsets in bytes from the start of the struct, null for a field not there."""
    return [_change(change) for change in comparison.changes]


def shape_json(shape: Shape) -> dict[str, Any]:
    """What a shape is, without its fields."""
    return {
        "name": shape.name,
        "struct": shape.region.name,
        "sizeof": shape.region.sizeof,
        "version": str(shape.version) if shape.version else None,
        "magic": shape.magic,
        "judge": shape.judge,
    }


def print_changes(out: Console, comparison: Comparison) -> None:
    """One row a field; what harms nobody is dimmed."""
    rows = table("", "field", ">was at", ">is at", ">bytes", ">now", "change")
    rows.title = None
    for change in comparison.changes:
        numbers = (_number(change.before, "offset"), _number(change.after, "offset"),
                   _number(change.before, "size"), _number(change.after, "size"))  # fmt: skip
        detail = change.detail if change.breaks else f"{change.detail} (harmless)"
        style = "" if change.breaks else "dim"
        rows.add_row(safe(change.path), *numbers, safe(detail), style=style)
    if comparison.changes:
        out.print(rows)


def warn(out: Console, text: str) -> None:
    """A warning that is not overlooked."""
    out.print(Text("! ", "bold red") + Text(text, "bold red"))


def _change(change: Change) -> dict[str, Any]:
    shift = change.after.offset - change.before.offset if change.before and change.after else None
    return {
        "field": change.path,
        "struct": change.struct,
        "kinds": list(change.kinds),
        "breaks": change.breaks,
        "before": _field(change.before),
        "after": _field(change.after),
        "shift": shift,
        "detail": change.detail,
    }


def _field(field: Field | None) -> dict[str, Any] | None:
    if field is None:
        return None
    return {
        "name": field.name,
        "type": field.type,
        "offset": field.offset,
        "size": field.size,
        "count": field.count,
    }


def _number(field: Field | None, attribute: str) -> str:
    return "-" if field is None else str(getattr(field, attribute))
