"""``hami-cache layout check``: does a header, a library or a mirror still have a known layout?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from hami_cache.cli.layout_sources import Source, declaration_options, read_shape
from hami_cache.cli.options import json_option, layouts_option
from hami_cache.spec import registry

if TYPE_CHECKING:
    from hami_cache.toolkit.check import Report


@click.command("check")
@declaration_options
@click.option("--go", type=click.Path(path_type=Path), help="A Go file that mirrors the struct.")
@click.option("--against", help="The layout it should have (default: the nearest known one).")
@layouts_option
@json_option
def check_layout(
    go: Path | None,
    against: str | None,
    layouts: Path | None,
    as_json: bool,
    **source: Unpack[Source],
) -> int:
    """Hold a struct against the known layouts.

    Exit code 0: it has the layout, and its version says so. 1: it differs. 2: it cannot be told.
    """
    from hami_cache.toolkit.check import check

    report = check(read_shape(source, go), registry.layouts(layouts), against)
    if as_json:
        _print_json(report)
    else:
        _print(report)
    return 0 if report.passed else 1


def _print_json(report: Report) -> None:
    from hami_cache.cli.layout_changes import changes_json, shape_json

    document = {
        **shape_json(report.shape),
        "against": report.layout.name,
        "passed": report.passed,
        "same_as": list(report.same_as),
        "version_bumped": report.version_bumped,
        "findings": list(report.findings),
        "remarks": list(report.remarks),
        "changes": changes_json(report.comparison),
    }
    print(json.dumps(document))


def _print(report: Report) -> None:
    from hami_cache.cli.layout_changes import print_changes, warn
    from hami_cache.cli.tables import console, safe

    out = console()
    shape = report.shape
    version = f", version {shape.version}" if shape.version else ""
    out.print(safe(f"{shape.name}: {shape.region.name} has {shape.region.sizeof} bytes{version}"))
    out.print(safe(f"offsets by {shape.judge}"))
    if report.passed:
        out.print(safe(f"Equal to {report.layout.name}."), style="bold green")
    else:
        print_changes(out, report.comparison)
        for finding in report.findings:
            warn(out, finding)
    for remark in report.remarks:
        out.print(safe(f"Note: {remark}."))
