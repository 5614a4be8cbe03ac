"""``hami-cache diff``: what differs between two cache files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hami_cache.cli.kinds import FILE, LAYOUT
from hami_cache.cli.options import follow_option, json_option, layouts_option


@click.command()
@click.argument("a", type=FILE)
@click.argument("b", type=FILE)
@click.option(
    "--layout", type=LAYOUT, help="Read both with this layout, whatever the evidence says."
)
@layouts_option
@follow_option
@json_option
def diff(
    a: str, b: str, layout: str | None, layouts: Path | None, follow: bool, as_json: bool
) -> int:
    """Show what differs between two cache files, field by field.

    Fields are matched by their logical names, so the files may have different layouts. Exit code
    0: nothing differs; 1: something does.
    """
    from hami_cache.forensics.diff import compare, document
    from hami_cache.forensics.image import load

    before = load(a, layout=layout, layouts=layouts, follow=follow)
    after = load(b, layout=layout, layouts=layouts, follow=follow)
    if as_json:
        found = document(before, after)
        print(json.dumps(found))
        return 1 if found["changes"] else 0
    changes = list(compare(before, after))
    from hami_cache.cli.changes import print_changes

    print_changes(before, after, changes)
    return 1 if changes else 0
