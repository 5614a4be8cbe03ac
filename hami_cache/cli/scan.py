"""``hami-cache scan``: a line about every one of very many files."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from hami_cache.cli.kinds import FILE
from hami_cache.cli.options import follow_option, json_option, layouts_option, now_option

if TYPE_CHECKING:
    from hami_cache.forensics.scan_examine import Settings
    from hami_cache.forensics.scan_row import Row

FORMATS = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet"}
"""What the ending of --out says."""

PARTITIONS = ("layout", "verdict")


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...", type=FILE)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "jsonl", "csv", "parquet"]),
    help="Default: as the ending of --out says, else a table.",
)
@json_option
@click.option("--out", metavar="PATH|URL", help="Write there instead of standard output.")
@click.option(
    "--partition",
    type=click.Choice(PARTITIONS),
    multiple=True,
    help="Make --out a directory of Parquet files, partitioned by this; may be repeated.",
)
@click.option(
    "--match",
    default="*.cache",
    show_default=True,
    help="Which files inside directories and archives are caches, by name.",
)
@now_option
@click.option("--jobs", type=click.IntRange(min=1), help="Processes; default: one for every core.")
@click.option("--dask", metavar="ADDRESS", help="Scan on the Dask cluster of this scheduler.")
@click.option(
    "--archive-gib",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="GiB that one archive may expand to.",
)
@layouts_option
@follow_option
def scan(
    inputs: tuple[str, ...],
    form: str | None,
    as_json: bool,
    out: str | None,
    partition: tuple[str, ...],
    match: str,
    now: float | None,
    jobs: int | None,
    dask: str | None,
    archive_gib: int,
    layouts: Path | None,
    follow: bool,
) -> int:
    """Say what every cache file is, holds and suffers from: one line a file, then the counts.

    INPUT is a file, a directory, a pattern, an archive (.tar, .tar.gz, .tgz, .zip; never unpacked
    to disk), a file compressed by gzip (.gz), or a URL of any of these. Files are read as bytes at
    rest, as by doctor --offline.

    Exit code 2: something could not be opened; its line says why.
    """
    from hami_cache.cli.scan_progress import progress
    from hami_cache.cli.scan_table import summary_lines
    from hami_cache.forensics.scan_archive import Limits
    from hami_cache.forensics.scan_examine import Settings
    from hami_cache.forensics.scan_inputs import Choice
    from hami_cache.forensics.scan_summary import Summary

    form = chosen_format(form, as_json, out, partition)
    choice = Choice(match, follow)
    limits = Limits(expanded=archive_gib << 30)
    settings = Settings(time.time() if now is None else now, layouts, choice, limits)
    summary = Summary()
    rows = summary.counting(examined(inputs, settings, jobs, dask))
    with progress(inputs, choice, beside=out is None) as (watched, stream):
        write(watched(rows), form, out or stream, partition, layouts)
    place = sys.stdout if form == "table" and out is None else sys.stderr
    print(*summary_lines(summary), sep="\n", file=place)
    if summary.unopened:
        print(f"hami-cache: {summary.unopened} could not be opened: see there", file=sys.stderr)
    return 2 if summary.unopened else 0


def chosen_format(
    form: str | None, as_json: bool, out: str | None, partition: Sequence[str]
) -> str:
    """What to write.

    Raises:
        UsageError: the options contradict each other.
    """
    if as_json and form not in (None, "jsonl"):
        raise click.UsageError("--json and --format exclude each other")
    if as_json:
        form = "jsonl"
    elif form is None:
        ending = FORMATS.get(Path(out).suffix, "table") if out is not None else "table"
        form = "parquet" if partition else ending
    if form == "parquet" and out is None:
        raise click.UsageError("Parquet needs --out")
    if partition and form != "parquet":
        raise click.UsageError("--partition needs Parquet")
    return form


def examined(
    inputs: Iterable[str], settings: Settings, jobs: int | None, dask: str | None
) -> Iterator[Row]:
    """The rows, from this machine or from a cluster."""
    from hami_cache.forensics import scan_dask, scan_run

    places = scan_run.find(inputs, settings.choice)
    if dask is not None:
        return scan_dask.scan(places, settings, dask)
    return scan_run.scan(places, settings, jobs)


def write(
    rows: Iterable[Row],
    form: str,
    out: str | TextIO,
    partition: Sequence[str],
    layouts: Path | None,
) -> None:
    """Write all rows, into an open stream or where a path or URL leads."""
    from hami_cache.forensics import scan_parquet
    from hami_cache.forensics.scan_output import written

    if not isinstance(out, str):
        write_text(rows, form, out, layouts)
    elif partition:
        scan_parquet.write_partitions(rows, partition, lambda name: written(f"{out}/{name}"))
    elif form == "parquet":
        with written(out) as file:
            scan_parquet.write_file(rows, file)
    else:
        with written(out) as file:
            text = TextIOWrapper(file, "utf-8", newline="")
            write_text(rows, form, text, layouts)
            text.detach()


def write_text(rows: Iterable[Row], form: str, out: TextIO, layouts: Path | None) -> None:
    """Write all rows in one of the text formats."""
    from hami_cache.cli.scan_table import write_table
    from hami_cache.forensics.scan_write import write_csv, write_jsonl
    from hami_cache.spec import registry

    if form == "csv":
        known = registry.layouts(layouts).values()
        write_csv(rows, out, max(layout.field("uuids").count for layout in known))
    elif form == "jsonl":
        write_jsonl(rows, out)
    else:
        write_table(rows, out)
