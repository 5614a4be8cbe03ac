"""``hami-cache inspect``: everything a cache file says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hami_cache.cli.kinds import FILE, LAYOUT
from hami_cache.cli.options import follow_option, json_option, layouts_option, offline_option
from hami_cache.errors import NotInitialisedError, UnknownLayoutError
from hami_cache.read import jsonform
from hami_cache.read.look import identify
from hami_cache.read.source import read_all

if TYPE_CHECKING:
    from hami_cache.read.cache import Cache, Engine


@click.command()
@click.argument("path", type=FILE)
@click.option("--layout", type=LAYOUT, help="Read with this layout, whatever the evidence says.")
@click.option("--field", help="Print only what lies at this path, such as procs[3].used[0].total.")
@offline_option
@layouts_option
@follow_option
@json_option
def inspect(
    path: str,
    layout: str | None,
    field: str | None,
    offline: bool,
    layouts: Path | None,
    follow: bool,
    as_json: bool,
) -> int:
    """Show layout, header, devices, process slots and anomalies of one cache file.

    With --field: one value as it lies in the file, an array as a list, a struct as an object.
    """
    from hami_cache.read.cache import open_cache

    engine: Engine = "numpy" if offline else "native"
    try:
        cache = open_cache(path, layout=layout, layouts=layouts, follow=follow, engine=engine)
    except (NotInitialisedError, UnknownLayoutError) as error:
        if as_json:
            content = read_all(path, follow=follow)
            found = identify(content, layouts=layouts)
            print(json.dumps(jsonform.unread(found, path, len(content))))
        print(f"hami-cache: {error}", file=sys.stderr)
        return 2
    with cache:
        if field is not None:
            print_field(cache, field, as_json)
            return 0
        snapshot = cache.snapshot()
        if as_json:
            document = jsonform.inspection(cache.identification, snapshot, path, cache.file_size)
            print(json.dumps(document))
            return 0
        from hami_cache.cli.tables import print_inspection

        print_inspection(path, cache.file_size, cache.identification, snapshot)
    return 0


def print_field(cache: Cache, path: str, as_json: bool) -> None:
    """The value at one field path, as it lies."""
    from hami_cache.cli.tables import safe
    from hami_cache.forensics import values

    ref = cache.layout.field(path)
    value = values.at(cache.layout, cache.copy().data, path)
    if as_json:
        document = {
            "file": str(cache.path),
            "layout": cache.layout.name,
            "field": path,
            "offset": ref.offset,
            "size": ref.size,
            "type": ref.type,
            "value": value,
        }
        print(json.dumps(document))
    elif isinstance(value, int | str):
        print(safe(str(value)).plain)
    else:
        print(json.dumps(value, indent=2))
