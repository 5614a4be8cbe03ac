"""``hami-cache identify``: which layout, and how do we know?"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hami_cache.cli.kinds import FILE
from hami_cache.cli.options import follow_option, json_option, layouts_option
from hami_cache.errors import HamiCacheError, one_line
from hami_cache.read.look import refusal
from hami_cache.read.source import read_content
from hami_cache.spec import registry
from hami_cache.spec.identify import Identification
from hami_cache.spec.identify import identify as identify_content


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=FILE)
@layouts_option
@follow_option
@json_option
@click.option("-v", "--verbose", is_flag=True, help="Show every candidate and its evidence.")
def identify(
    paths: tuple[str, ...], layouts: Path | None, follow: bool, as_json: bool, verbose: bool
) -> int:
    """Say which layout cache files have, with confidence and evidence.

    With --json: one object a file and line. Exit code 2 when a file could not be identified.
    """
    known = registry.layouts(layouts)
    code = 0
    for path in paths:
        try:
            content = read_content(path, follow=follow)
        except HamiCacheError as error:
            print(f"hami-cache: {error}", file=sys.stderr)
            code = 2
            continue
        found = identify_content(content, known)
        if as_json:
            _print_json(path, found, len(content))
        else:
            _print(path, found, verbose)
        if found.layout is None:
            print(f"hami-cache: {refusal(found, path)}", file=sys.stderr)
            code = 2
    return code


def _print_json(path: str, found: Identification, size: int) -> None:
    import json

    from hami_cache.read import jsonform

    print(json.dumps(jsonform.identification(found, path, size)))


def _print(path: str, found: Identification, verbose: bool) -> None:
    name = found.layout.name if found.layout else "-"
    print(f"{one_line(path)}: {found.verdict} {name} ({found.confidence:.0%}): {found.detail}")
    if not verbose:
        return
    for candidate in found.candidates:
        print(f"  {candidate.layout}: score {candidate.score:+.1f}")
        for item in candidate.evidence:
            print(f"    {'+' if item.supports else '-'} {item.kind}: {item.detail}")
