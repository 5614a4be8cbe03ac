"""``hami-cache layout diff``: what one layout changed against another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hami_cache.cli.kinds import LAYOUT_OR_FILE
from hami_cache.cli.layout_write import write_file
from hami_cache.cli.options import json_option, layouts_option

if TYPE_CHECKING:
    from hami_cache.toolkit.compare import Comparison


@click.command("diff")
@click.argument("before", type=LAYOUT_OR_FILE)
@click.argument("after", type=LAYOUT_OR_FILE)
@click.option("--svg", type=click.Path(path_type=Path), help="Write a picture, both to scale.")
@click.option("--html", type=click.Path(path_type=Path), help="Write a page: picture and table.")
@layouts_option
@json_option
def diff_layouts(
    before: str,
    after: str,
    svg: Path | None,
    html: Path | None,
    layouts: Path | None,
    as_json: bool,
) -> int:
    """Show what differs between two layouts, by name or by TOML file.

    Exit code 0: nothing. 1: something. 2: it cannot be told.
    """
    from hami_cache.cli.layout_changes import layout_called
    from hami_cache.toolkit.compare import compare
    from hami_cache.toolkit.shape import of_layout

    comparison = compare(*(of_layout(layout_called(n, layouts)) for n in (before, after)))
    if svg:
        from hami_cache.toolkit import draw

        write_file(svg, draw.svg(comparison))
    if html:
        from hami_cache.toolkit import page

        write_file(html, page.html(comparison))
    if as_json:
        _print_json(comparison)
    else:
        _print(comparison)
    return 0 if comparison.equal else 1


def _print_json(comparison: Comparison) -> None:
    from hami_cache.cli.layout_changes import changes_json, shape_json

    document = {
        "before": shape_json(comparison.before),
        "after": shape_json(comparison.after),
        "equal": comparison.equal,
        "indistinguishable": comparison.indistinguishable,
        "notes": list(comparison.notes),
        "changes": changes_json(comparison),
    }
    print(json.dumps(document))


def _print(comparison: Comparison) -> None:
    from hami_cache.cli.layout_changes import print_changes, warn
    from hami_cache.cli.tables import console, safe

    out = console()
    for shape in (comparison.before, comparison.after):
        version = f"version {shape.version}" if shape.version else "no version"
        out.print(safe(f"{shape.name}: {shape.region.sizeof} bytes, {version} in the header"))
    print_changes(out, comparison)
    if comparison.equal:
        out.print("Every field lies at the same place.", style="bold green")
    if comparison.indistinguishable:
        names = f"{comparison.before.name} and {comparison.after.name}"
        warn(out, f"SAME SIZE AND VERSION, BUT DIFFERENT: no header tells {names} apart")
    for note in comparison.notes:
        out.print(safe(f"Note: {note}."))
