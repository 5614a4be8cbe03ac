"""``hami-cache layout``: the known layouts, and the commands about changing them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hami_cache.cli.kinds import LAYOUT
from hami_cache.cli.layout_check import check_layout
from hami_cache.cli.layout_diff import diff_layouts
from hami_cache.cli.layout_write import export_layout, import_layout, new_layout
from hami_cache.cli.options import json_option, layouts_option
from hami_cache.spec import registry
from hami_cache.spec.layout import Layout


@click.group()
def layout() -> None:
    """Know, check, compare and write layouts of the cache file."""


for _command in (check_layout, diff_layouts, export_layout, import_layout, new_layout):
    layout.add_command(_command)


@layout.command("list")
@layouts_option
@json_option
def list_layouts(layouts: Path | None, as_json: bool) -> None:
    """List every known layout, oldest first."""
    known = registry.layouts(layouts)
    if as_json:
        print(json.dumps([_summary(known[name]) for name in known]))
        return
    from hami_cache.cli.tables import console, table

    rows = table(
        "", "layout", ">sizeof", "version", "seqlock", "since", "before", "releases", "changes"
    )
    rows.title = None
    for name in known:
        one = _summary(known[name])
        rows.add_row(
            one["name"],
            str(one["sizeof"]),
            one["version"] or "-",
            one["seqlock"] or "-",
            one["since"],
            one["before"] or "(current)",
            ", ".join(one["releases"]) or "-",
            one["changes"],
        )
    console().print(rows)


@layout.command("show")
@click.argument("name", type=LAYOUT)
@layouts_option
@json_option
def show_layout(name: str, layouts: Path | None, as_json: bool) -> None:
    """Show every struct of a layout: field, C type, offset, size, alignment."""
    chosen = registry.layout(name, layouts)
    document = structure(chosen)
    if as_json:
        print(json.dumps(document))
        return
    from rich.text import Text

    from hami_cache.cli.tables import console, table

    out = console()
    out.print(Text(f"{chosen.name}: {chosen.sizeof} bytes, {chosen.upstream.project}", "bold"))
    out.print(Text(chosen.summary))
    for struct_name, struct in document["structs"].items():
        title = f"{struct_name}  (sizeof {struct['sizeof']}, alignof {struct['alignof']})"
        rows = table(title, "field", "type", ">offset", ">size", ">count", ">align")
        for field in struct["fields"]:
            numbers = (str(field[key]) for key in ("offset", "size", "count", "align"))
            rows.add_row(field["name"], field["type"], *numbers)
        out.print(rows)


def structure(chosen: Layout) -> dict[str, Any]:
    """The JSON of `layout show`: offsets in bytes from the start of each struct."""
    return {
        "name": chosen.name,
        "sizeof": chosen.sizeof,
        "alignof": chosen.region.alignof,
        "structs": {
            name: {
                "sizeof": struct.sizeof,
                "alignof": struct.alignof,
                "fields": [
                    {
                        "name": field.name,
                        "type": field.type,
                        "offset": field.offset,
                        "size": field.size,
                        "count": field.count,
                        "align": field.ctype.align,
                    }
                    for field in struct.fields
                ],
            }
            for name, struct in chosen.structs.items()
        },
    }


def _summary(chosen: Layout) -> dict[str, Any]:
    version = chosen.identity.version
    return {
        "name": chosen.name,
        "sizeof": chosen.sizeof,
        "version": str(version) if version else None,
        "seqlock": chosen.seqlock.field if chosen.seqlock else None,
        "since": chosen.upstream.since,
        "before": chosen.upstream.before,
        "releases": list(chosen.upstream.releases),
        "changes": chosen.upstream.changes,
        "path": str(chosen.path),
    }
