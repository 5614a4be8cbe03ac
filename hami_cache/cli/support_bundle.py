"""``hami-cache support-bundle``: what a maintainer needs in a report."""

from __future__ import annotations

import time
from pathlib import Path

import click

from hami_cache.cli.kinds import FILE
from hami_cache.cli.options import layouts_option

_PATH = click.Path(path_type=Path)
_NAME = "hami-cache-support-%Y%m%dT%H%M%SZ.tar.gz"


@click.command("support-bundle")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=FILE)
@click.option(
    "--hook-path",
    type=_PATH,
    envvar="HOOK_PATH",
    show_envvar=True,
    help="HAMi's directory: all caches below it are looked into.",
)
@click.option("--host-proc", type=_PATH, help="The host's /proc, to tell dead processes.")
@click.option(
    "-o",
    "--output",
    type=_PATH,
    help="The archive to write; never an old one.  [default: hami-cache-support-TIME.tar.gz]",
)
@click.option(
    "--include-tenant-data",
    "tenants",
    is_flag=True,
    help="With pod UIDs, container names, uuids, pids, and every text that quotes them.",
)
@layouts_option
def support_bundle(
    paths: tuple[str, ...],
    hook_path: Path | None,
    host_proc: Path | None,
    output: Path | None,
    tenants: bool,
    layouts: Path | None,
) -> int:
    """Write an archive with what a maintainer needs in a report, and say what is inside.

    Versions, known layouts, the machine, and of every cache below --hook-path and every PATH its
    state, layout, evidence and anomalies. Tenants' data stays out unless it is asked for:
    containers and files have numbers. At most 100 files are looked into.
    """
    from hami_cache.cli import support_archive, support_facts

    documents: dict[str, object] = {
        "versions.json": support_facts.versions(),
        "environment.json": support_facts.environment(),
        "layouts.json": support_facts.layouts(layouts),
    }
    try:
        from hami_cache.cli import support_node
    except ImportError:
        # A native reader that cannot be loaded is one of the things to report.
        unread = {"error": "nothing can be read: see native reader in versions.json"}
        documents |= dict.fromkeys(support_archive.NODE, unread)
    else:
        documents |= support_node.documents(
            paths, hook_path, host_proc=host_proc, layouts=layouts, tenants=tenants
        )
    target = output or Path(time.strftime(_NAME, time.gmtime()))
    inside = support_archive.write(target, documents, tenants=tenants)
    click.echo(f"{target}:")
    for name, size in inside.items():
        what = support_archive.ABOUT.get(name, "read it first")
        click.echo(f"  {name:<17}{size:>8} bytes  {what}")
    click.echo(support_archive.WITH if tenants else support_archive.WITHOUT)
    return 0
