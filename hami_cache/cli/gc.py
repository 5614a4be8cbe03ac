"""``hami-cache gc``: what the monitor's garbage collection would remove, and what it keeps."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import click

from hami_cache.cli.options import json_option
from hami_cache.cli.pods import open_pods, pods_option
from hami_cache.cli.roots import hook_path
from hami_cache.durations import parse_duration
from hami_cache.errors import ConfigError
from hami_cache.node.pods import PodSource, PodView

POD_LIST_WAIT = 10.0


@click.command()
@click.argument("root", type=click.Path(path_type=Path))
@pods_option("auto")
@click.option("--dry-run", is_flag=True, help="Required: only the monitor removes directories.")
@click.option(
    "--resync",
    envvar="HAMI_RESYNC_INTERVAL",
    show_envvar=True,
    default="5m",
    show_default=True,
    help="How long the directory of an unknown pod survives its last change.",
)
@json_option
def gc(root: Path, pods_spec: str, dry_run: bool, resync: str, as_json: bool) -> int:
    """Say what the garbage collection would do with every directory, and why; remove nothing.

    ROOT is HOOK_PATH or the containers directory in it. A list of pods from a file is taken as
    complete and current.
    """
    from hami_cache.monitor.reaper import Reaper
    from hami_cache.node.containers import ContainerTree

    if not dry_run:
        hint = "say --dry-run to see what it would remove"
        raise ConfigError("only the monitor removes directories", hint=hint)
    seconds = parse_duration(resync)
    if seconds <= 0:
        raise ConfigError(f"{resync!r} is no time to wait", field="--resync", hint="say 5m")
    with contextlib.ExitStack() as parts:
        tree = parts.enter_context(contextlib.closing(ContainerTree(hook_path(root))))
        source = open_pods(pods_spec, wait=POD_LIST_WAIT)
        parts.callback(source.close)
        pods = CurrentPods(source) if pods_spec.startswith("file:") else source
        tree.refresh(complete=True)
        rulings = sorted(Reaper(tree, pods, seconds, dry_run=True).run(), key=lambda r: r.name)
        if as_json:
            print(json.dumps({"root": str(tree.root), "rulings": [*map(asdict, rulings)]}))
            return 0
    from hami_cache.cli.tables import console, safe, table

    rows = table(str(tree.root), "directory", "action", "why")
    for ruling in rulings:
        rows.add_row(safe(ruling.name), ruling.action, safe(ruling.reason))
    console().print(rows)
    return 0


class CurrentPods:
    """A source whose list is taken as current: good enough where nothing is removed."""

    def __init__(self, source: PodSource) -> None:
        self._source = source

    def view(self) -> PodView:
        """The source's view, as if it were fresh."""
        view = self._source.view()
        return replace(view, fresh=view.known)

    def close(self) -> None:
        """Close the source."""
        self._source.close()
