"""``hami-cache doctor``: what is wrong with cache files, and what to do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hami_cache.cli.kinds import FILE, LAYOUT
from hami_cache.cli.options import (
    follow_option,
    host_proc_option,
    json_option,
    layouts_option,
    now_option,
    offline_option,
)
from hami_cache.errors import SourceError

if TYPE_CHECKING:
    from hami_cache.forensics.anomalies import Diagnosis

SEVERITIES = ("info", "warning", "error")


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=FILE)
@click.option("--layout", type=LAYOUT, help="Read with this layout, whatever the evidence says.")
@offline_option
@host_proc_option
@now_option
@click.option(
    "--severity",
    type=click.Choice(SEVERITIES),
    default="info",
    help="Leave out findings less severe than this; they do not count for the exit code either.",
)
@click.option("--sarif", is_flag=True, help="Print a SARIF 2.1.0 log, for code-scanning tools.")
@layouts_option
@follow_option
@json_option
def doctor(
    paths: tuple[str, ...],
    layout: str | None,
    offline: bool,
    host_proc: Path | None,
    now: float | None,
    severity: str,
    sarif: bool,
    layouts: Path | None,
    follow: bool,
    as_json: bool,
) -> int:
    """Find everything that is wrong with cache files, where, and what to do about it.

    With --json: one object a file and line. Exit code 0: nothing found; 1: findings; 2: some file
    could not be read.
    """
    if as_json and sarif:
        raise click.UsageError("--json and --sarif exclude each other")
    from hami_cache.forensics import forms
    from hami_cache.forensics.anomalies import Circumstances, diagnose
    from hami_cache.forensics.liveness import HostProcesses

    host = None if host_proc is None else HostProcesses(host_proc)
    circumstances = Circumstances(now, host)
    found: list[Diagnosis] = []
    unopened: list[tuple[str, str]] = []
    for path in paths:
        try:
            one = diagnose(
                path,
                circumstances,
                layout=layout,
                layouts=layouts,
                follow=follow,
                engine="numpy" if offline else "native",
            )
        except SourceError as error:
            unopened.append((path, str(error)))
            print(f"hami-cache: {error}", file=sys.stderr)
            if as_json:
                print(json.dumps(forms.unopened(path, str(error))))
            continue
        found.append(at_least(one, severity))
        if as_json:
            print(json.dumps(forms.diagnosis(found[-1])))
        elif not sarif:
            from hami_cache.cli.diagnosis import print_diagnosis

            print_diagnosis(found[-1], asked=host is not None)
        if one.verdict == "unknown":
            print(f"hami-cache: {path}: {one.findings[0].anomaly.detail}", file=sys.stderr)
    if sarif:
        print_sarif(found, unopened)
    if unopened or any(one.verdict == "unknown" for one in found):
        return 2
    return 1 if any(one.findings for one in found) else 0


def at_least(found: Diagnosis, severity: str) -> Diagnosis:
    """The same diagnosis without the findings that are less severe."""
    from dataclasses import replace

    least = SEVERITIES.index(severity)
    kept = (f for f in found.findings if SEVERITIES.index(f.anomaly.severity) >= least)
    return replace(found, findings=tuple(kept))


def print_sarif(found: list[Diagnosis], unopened: list[tuple[str, str]]) -> None:
    """The whole run as one SARIF log."""
    from importlib.metadata import version

    from hami_cache.forensics import sarif

    print(json.dumps(sarif.log(found, unopened, version("hami-cache"))))
