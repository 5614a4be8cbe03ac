"""``hami-cache hexdump``: every byte with the name of the field that it belongs to."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hami_cache.cli.kinds import FILE, LAYOUT
from hami_cache.cli.options import follow_option, json_option, layouts_option

if TYPE_CHECKING:
    from hami_cache.forensics.annotate import Piece
    from hami_cache.read.cache import Cache


@click.command()
@click.argument("path", type=FILE)
@click.option("--field", help="Only this field, such as procs[3].used[0] or limit.")
@click.option("--live", is_flag=True, help="Go on and show what changes, until interrupted.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.01),
    default=1.0,
    show_default=True,
    help="Seconds between two looks with --live.",
)
@click.option(
    "--layout", type=LAYOUT, help="Name the bytes by this layout, whatever the evidence says."
)
@layouts_option
@follow_option
@json_option
def hexdump(
    path: str,
    field: str | None,
    live: bool,
    interval: float,
    layout: str | None,
    layouts: Path | None,
    follow: bool,
    as_json: bool,
) -> int:
    """Show the bytes of a cache file with the field that each belongs to.

    Padding and gaps between fields are named too; runs of zeros take one row. A file that no
    layout explains is shown without names.
    """
    from hami_cache.forensics.annotate import document, pieces
    from hami_cache.read.cache import open_cache
    from hami_cache.read.source import read_all
    from hami_cache.spec import registry
    from hami_cache.spec.identify import identify

    if live and as_json:
        raise click.UsageError("--live and --json exclude each other")
    data = read_all(path, follow=follow)
    if layout is None:
        identified = identify(data, registry.layouts(layouts))
        chosen, how = identified.layout, str(identified.verdict)
    else:
        chosen, how = registry.layout(layout, layouts), "asked for"
    found = list(pieces(chosen, data, field))
    if as_json:
        head = {"file": path, "size": len(data), "layout": chosen.name if chosen else None}
        print(json.dumps({**head, "pieces": document(found, data)}))
        return 0
    show(f"{len(data)} bytes, {chosen.name if chosen else 'no layout'}, {how}", path, found, data)
    if live:
        with (
            suppress(KeyboardInterrupt),
            open_cache(path, layout=chosen, layouts=layouts, follow=follow) as cache,
        ):
            watch(cache, field, interval)
    return 0


def show(summary: str, path: str, found: Sequence[Piece], data: bytes) -> None:
    """All pieces, under a line that says what they are."""
    from rich.text import Text

    from hami_cache.cli.paint import paint
    from hami_cache.cli.tables import console, safe

    out = console()
    out.print(Text.assemble(safe(path), ": ", (summary, "bold")), soft_wrap=True)
    for row in paint(found, data):
        out.print(row, soft_wrap=True)


def watch(cache: Cache, field: str | None, interval: float) -> None:
    """Show the pieces that change, with the changed bytes set off, until interrupted."""
    from hami_cache.cli.paint import paint
    from hami_cache.cli.tables import console
    from hami_cache.forensics.annotate import changed_bytes, pieces, touched

    out = console()
    before = cache.copy().data
    while True:
        time.sleep(interval)
        after = cache.copy().data
        changed = changed_bytes(before, after)
        found = list(touched(pieces(cache.layout, after, field), changed)) if changed else []
        if found:
            out.print(time.strftime("%H:%M:%S"), style="bold")
        for row in paint(found, after, set(changed)):
            out.print(row, soft_wrap=True)
        before = after
