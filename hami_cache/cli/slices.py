"""``hami-cache slices``: every pod container's share of every GPU of this node."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from hami_cache.cli.options import hook_path_option, layouts_option
from hami_cache.cli.pods import open_pods, pods_option
from hami_cache.cli.repeating import parse_interval
from hami_cache.errors import ConfigError

_DIRECTORY = click.Path(path_type=Path)
_POD_LIST_WAIT = 10.0


@click.command()
@click.option(
    "--source",
    type=click.Choice(["nvml", "cache", "both"]),
    default="both",
    show_default=True,
    help="Who is asked: the driver, the containers' caches, or both, the driver first.",
)
@hook_path_option
@pods_option("auto")
@click.option(
    "--host-proc",
    type=_DIRECTORY,
    help="The host's /proc, by which the driver's processes are told apart. Where it is given, "
    "dead processes do not count in the caches either.  [default: /proc]",
)
@click.option("--watch", is_flag=True, help="Go on, a line for each pass, until told to stop.")
@click.option(
    "--interval", default="5s", show_default=True, metavar="DURATION", help="Between passes."
)
@click.option(
    "--figures",
    "asked",
    nargs=3,
    metavar="POD CONTAINER DEVICE",
    help="Answer for one container (POD is a UID or NAMESPACE/NAME) on one card instead.",
)
@click.option(
    "--explain", is_flag=True, help="Say on stderr of each missing figure why no source has it."
)
@click.option("--json", is_flag=True, expose_value=False, help="Nothing changes: it is JSON.")
@layouts_option
def slices(
    source: str,
    hook_path: Path | None,
    pods_spec: str,
    host_proc: Path | None,
    watch: bool,
    interval: str,
    asked: tuple[str, str, str] | None,
    explain: bool,
    layouts: Path | None,
) -> int:
    """Measure every pod container's share of every GPU.

    Prints the section as JSON: null where this pass could not measure. What went wrong on the way,
    and where the sources disagree, is said on stderr.

    Exit codes: 0 measured, or nothing to measure; 1 --figures has no answer; 2 could not measure.
    """
    if source == "nvml":
        hook_path = None
    elif hook_path is None:
        hint = "set HOOK_PATH, give --hook-path, or ask --source nvml"
        raise ConfigError("nobody said where the caches are", field="--hook-path", hint=hint)
    seconds = parse_interval(interval)
    with contextlib.closing(open_pods(pods_spec, wait=_POD_LIST_WAIT)) as pods:
        from hami_cache.cli.slices_run import Passes, open_live

        with open_live(pods, hook_path, host_proc, nvml=source != "cache", layouts=layouts) as live:
            passes = Passes(live, pods, asked=asked, explain=explain)
            if not watch:
                return passes.take()
            passes.repeat(seconds)
    return 0
