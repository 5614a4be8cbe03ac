"""``hami-cache report``: cache files as one page for a browser."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from hami_cache.cli.kinds import FILE
from hami_cache.cli.options import (
    follow_option,
    host_proc_option,
    layouts_option,
    now_option,
    offline_option,
)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=FILE)
@click.option("--html", required=True, metavar="PATH|URL", help="The page.")
@offline_option
@host_proc_option
@now_option
@layouts_option
@follow_option
def report(
    paths: tuple[str, ...],
    html: str,
    offline: bool,
    host_proc: Path | None,
    now: float | None,
    layouts: Path | None,
    follow: bool,
) -> int:
    """Write one self-contained HTML page about cache files, to read, to print or to send.

    It shows layout, evidence, devices, process slots and anomalies, and loads nothing.
    """
    from importlib.metadata import version

    from hami_cache.forensics.anomalies import Circumstances
    from hami_cache.forensics.liveness import HostProcesses
    from hami_cache.forensics.report import page
    from hami_cache.forensics.report_subject import Unopened, examine
    from hami_cache.forensics.scan_output import written

    circumstances = Circumstances(now, None if host_proc is None else HostProcesses(host_proc))
    subjects = [
        examine(
            path,
            circumstances,
            layouts=layouts,
            follow=follow,
            engine="numpy" if offline else "native",
        )
        for path in paths
    ]
    with written(html) as file:
        file.write(page(subjects, time.time(), version("hami-cache")).encode())
    unopened = [subject for subject in subjects if isinstance(subject, Unopened)]
    for subject in unopened:
        print(f"hami-cache: {subject.file}: {subject.error}", file=sys.stderr)
    return 2 if unopened else 0
