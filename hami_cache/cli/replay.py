"""``hami-cache replay``: a recording, sample by sample."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hami_cache.cli.moments import part, part_options, written
from hami_cache.cli.options import json_option
from hami_cache.errors import one_line

if TYPE_CHECKING:
    from hami_cache.forensics.history import Sample


@click.command()
@click.argument("recording", type=click.Path(path_type=Path))
@part_options
@click.option("--last", is_flag=True, help="Only the last sample of that part.")
@json_option
def replay(
    recording: Path,
    since: float | None,
    until: float | None,
    cache: str,
    last: bool,
    as_json: bool,
) -> int:
    """Print a recording: a line for every sample and device, also while it is being written.

    With --json: one object a sample and line, {"time", "caches": {name: ...}}.
    """
    samples = part(recording, since, until, cache)
    for sample in _only_last(samples) if last else samples:
        if as_json:
            print(json.dumps({"time": sample.time, "caches": sample.caches}))
        else:
            for line in _lines(sample):
                print(line)
    return 0


def _only_last(samples: Iterator[Sample]) -> Iterator[Sample]:
    found = None
    for sample in samples:
        found = sample
    if found is not None:
        yield found


def _lines(sample: Sample) -> Iterator[str]:
    time = written(sample.time)
    if not sample.caches:
        yield f"{time}  no caches"
    for name, document in sorted(sample.caches.items()):
        devices = document.get("devices")
        if not isinstance(devices, list) or not devices:
            why = document.get("detail", "no devices")
            yield one_line(f"{time}  {name}  {document.get('state')}: {why}")
            continue
        for index, device in enumerate(devices):
            figures = device if isinstance(device, dict) else {}
            used = figures.get("used")
            total = used.get("total") if isinstance(used, dict) else None
            yield one_line(
                f"{time}  {name}  device {index}  {_bytes(total)} of {_bytes(figures.get('limit'))}"
                f"  SM {_shown(figures.get('sm_util'))} %"
            )


def _bytes(value: Any) -> str:
    from hami_cache.cli.tables import human_bytes

    return human_bytes(value) if isinstance(value, int) else _shown(value)


def _shown(value: Any) -> str:
    """A figure of a recording: a number, or why there is none."""
    if isinstance(value, dict):
        return f"absent ({value.get('absent')})"
    return str(value) if isinstance(value, int) else "?"
