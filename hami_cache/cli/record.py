"""``hami-cache record``: what a node's caches say, written down again and again."""

from __future__ import annotations

import itertools
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hami_cache.cli.options import layouts_option
from hami_cache.errors import HamiCacheError

if TYPE_CHECKING:
    from hami_cache.forensics.history import Sample
    from hami_cache.node.containers import ContainerTree


@click.command()
@click.argument("root", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The recording.")
@click.option("--interval", default="1s", show_default=True, help="Time between two samples.")
@click.option("--samples", type=click.IntRange(min=1), help="End after so many.")
@layouts_option
def record(root: Path, out: Path, interval: str, samples: int | None, layouts: Path | None) -> int:
    """Record memory, utilization and state of every cache of a node.

    ROOT is HAMi's HOOK_PATH, or the containers directory in it. A recording that is there already
    is gone on with. It ends with Ctrl-C or SIGTERM and can be read at any time (replay, plot).
    """
    from hami_cache.cli.repeating import ended_by_signals, parse_interval
    from hami_cache.cli.roots import hook_path
    from hami_cache.forensics.history import Recording
    from hami_cache.node.containers import ContainerTree

    pause = parse_interval(interval)
    tree = ContainerTree(hook_path(root), layouts=layouts)
    count = 0
    with Recording(out) as recording, closing(tree), ended_by_signals():
        due = time.monotonic()
        for _ in itertools.count(1) if samples is None else range(1, samples + 1):
            time.sleep(max(due - time.monotonic(), 0))
            recording.add(taken(tree))
            count += 1
            due = max(due + pause, time.monotonic())  # what was missed is not made up for
    print(f"{out}: {count} samples, {recording.size} bytes", file=sys.stderr)
    return 0


def taken(tree: ContainerTree) -> Sample:
    """All caches as they are now."""
    from hami_cache.forensics.history import Sample
    from hami_cache.forensics.history_sample import readable, unreadable

    with tree.lock:
        tree.refresh()
        now = time.time()
        caches = {}
        for key, container in tree.containers.items():
            for name, tracked in container.caches.items():
                try:
                    if tracked.cache is None:
                        document = unreadable(tracked.state, tracked.detail)
                    else:
                        found = tracked.cache.identification
                        document = readable(found, tracked.cache.snapshot())
                except HamiCacheError as error:
                    document = unreadable("unreadable", error.message)
                caches[f"{key.pod_uid}_{key.container}/{name}"] = document
    return Sample(now, caches)
