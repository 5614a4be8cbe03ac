"""``hami-cache top``: a live view of the node's containers."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hami_cache.cli.options import layouts_option
from hami_cache.cli.pods import open_pods, pods_option
from hami_cache.cli.repeating import parse_interval
from hami_cache.cli.roots import hook_path as checked
from hami_cache.cli.top_order import ORDERS, select, sort
from hami_cache.errors import ConfigError
from hami_cache.forensics.extras import needed
from hami_cache.spec import registry

if TYPE_CHECKING:
    from hami_cache.cli.top_reading import NodeWatch

_DIRECTORY = click.Path(path_type=Path)
_POD_LIST_WAIT = 10.0


@click.command()
@click.option(
    "--hook-path",
    type=_DIRECTORY,
    envvar="HOOK_PATH",
    show_envvar=True,
    help="HAMi's directory: caches lie at containers/<podUID>_<container>/*.cache below it.",
)
@pods_option("auto")
@click.option(
    "--host-proc",
    type=_DIRECTORY,
    help="The host's /proc. Where it is given, dead processes do not count.",
)
@click.option(
    "--interval", default="2s", show_default=True, metavar="DURATION", help="Between passes."
)
@click.option(
    "--sort",
    "order",
    type=click.Choice(list(ORDERS)),
    default="pod",
    show_default=True,
    help="The column to sort by; share is memory against its limit.",
)
@click.option(
    "--filter", "wanted", default="", metavar="WORDS", help="Only lines that have these words."
)
@click.option("--once", is_flag=True, help="Print one table and end.")
@click.option("--json", "as_json", is_flag=True, help="With --once: print JSON, for machines.")
@layouts_option
def top(
    hook_path: Path | None,
    pods_spec: str,
    host_proc: Path | None,
    interval: str,
    order: str,
    wanted: str,
    once: bool,
    as_json: bool,
    layouts: Path | None,
) -> int:
    """Watch the node's containers: memory against limit, SM, last kernel, what is wrong.

    A line for each card of each container. Enter shows a container's process slots, s and r sort,
    / filters, p pauses, space reads at once, q ends. It needs no cluster and no GPU, and it writes
    nothing.
    """
    if hook_path is None:
        hint = "set HOOK_PATH or give --hook-path"
        raise ConfigError("nobody said where the caches are", field="--hook-path", hint=hint)
    if as_json and not once:
        raise click.UsageError("--json goes with --once")
    seconds = parse_interval(interval)
    if not once:
        _check_terminal()
    registry.layouts(layouts)  # a wrong folder is told now, not once for each file
    from hami_cache.cli.top_reading import NodeWatch

    with contextlib.ExitStack() as parts:
        parts.enter_context(_quiet())
        wait = _POD_LIST_WAIT if once else 0.0
        pods = parts.enter_context(contextlib.closing(open_pods(pods_spec, wait=wait)))
        watch = NodeWatch(checked(hook_path), pods, layouts=layouts, host_proc=host_proc)
        parts.enter_context(contextlib.closing(watch))
        if once:
            _print_once(watch, order, wanted, as_json)
            return 0
        from hami_cache.cli.top_app import TopApp

        app = TopApp(watch, seconds, order=order, wanted=wanted)
        app.run()
        return app.return_code or 0


def _check_terminal() -> None:
    """Raise a ConfigError where the live view cannot be."""
    needed("textual", "tui")
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise ConfigError("this is no terminal", hint="say --once for a table")


def _print_once(watch: NodeWatch, order: str, wanted: str, as_json: bool) -> None:
    from hami_cache.cli.top_once import print_json, print_table

    reading = watch.take(complete=True)
    lines = sort(select(reading.lines, wanted), order)
    if as_json:
        print_json(watch.root, reading, lines)
    else:
        print_table(reading, lines)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the log from saying what the table shows, in the middle of it."""
    logger = logging.getLogger("hami_cache.node.containers")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
