"""``hami-cache demo``: a small node of simulated containers, read, steered and measured."""

from __future__ import annotations

import contextlib
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from hami_cache.errors import ConfigError
from hami_cache.spec import registry
from hami_cache.spec.layout import Layout

GIB = 1 << 30
PASSES = 3
"""Passes of the feedback loop that are shown."""

PASS_SECONDS = 0.5


@click.command()
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help="Where to lay the node out, and leave it; a temporary directory by default.",
)
def demo(directory: Path | None) -> int:
    """Lay out a small node and show what hami-cache makes of it.

    Containers with caches of every layout, written by real processes where a C compiler is at
    hand; some that compete for a card; one whose file was cut; one that has not started. Then the
    monitor's feedback loop, its metrics, and one cache in full.
    """
    with contextlib.ExitStack() as stack:
        logging.disable(logging.WARNING)  # what the log would say, the tables show
        stack.callback(logging.disable, logging.NOTSET)
        root = directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(_node(root))
        _say(f"A node at {root}")
        _show_containers(root)
        _say("The feedback loop: an urgent container makes another wait (recent_kernel -1)")
        _show_feedback(root)
        _say("The metrics, as Prometheus would scrape them (hami-cache monitor --once)")
        _run("monitor", "--once", "--no-nvml", "--log-level", "error", *_where(root))
        inspected = next(root.glob("containers/*_v1-sem/*.cache"))
        _say("One of the caches in full (hami-cache inspect)")
        _run("inspect", str(inspected))
    return 0


def _where(root: Path) -> tuple[str, ...]:
    return ("--hook-path", str(root), "--pods", f"file:{root / 'pods.json'}")


@contextlib.contextmanager
def _node(root: Path) -> Iterator[None]:
    """The containers' directories, and the processes that write into them."""
    from hami_cache.testing import CacheBuilder, container_tree

    tree = container_tree(root)
    with contextlib.ExitStack() as writers:
        for number, (name, layout) in enumerate(registry.layouts().items()):
            # They all share two cards, and the first of them is more urgent than the others.
            builder = CacheBuilder(layout, priority=0 if number == 0 else 1)
            builder.device(limit=(number + 1) * GIB, sm_limit=50).device(limit=8 * GIB, sm_limit=50)
            path = tree.add(f"trainer-{number}", name, builder, namespace="team-a")
            _write(writers, path, layout)
        whole = CacheBuilder("v1.2").device().process(7, memory=[GIB]).build()
        tree.add("cut", "main", whole[:1_500_000], namespace="team-b")
        tree.add("starting", "main", namespace="team-b")
        yield


def _write(writers: contextlib.ExitStack, path: Path, layout: Layout) -> None:
    """Start processes that add and remove memory in a cache, where they can be compiled."""
    from hami_cache.testing.writers import Writer

    try:
        writer = Writer(
            path, layout, processes=2, threads=2, devices=2, pause_us=500, watcher_ms=120
        )
    except ConfigError as error:
        print(f"(without live writers: {error})", file=sys.stderr)
        return
    writers.enter_context(writer)


def _say(text: str) -> None:
    print(f"\n== {text}\n", flush=True)


def _run(*arguments: str) -> None:
    from hami_cache.cli.main import main

    print(f"$ hami-cache {' '.join(arguments)}\n", flush=True)
    main(arguments)
    sys.stdout.flush()


def _show_containers(root: Path) -> None:
    from hami_cache.cli.tables import console, human_bytes, table
    from hami_cache.node.containers import ContainerTree
    from hami_cache.node.usage import UsageReader

    rows = table(
        "", "container", "state", "layout", ">confidence", ">processes", ">card 0", ">card 1"
    )
    rows.title = None
    tree = ContainerTree(root)
    for usage in sorted(UsageReader(tree).read(complete=True), key=lambda u: u.key.container):
        counted = usage.processes.get("running", 0) + usage.processes.get("suspended", 0)
        cards = [human_bytes(device.total) for device in usage.devices] + ["", ""]
        confidence = f"{usage.confidence:.0%}" if usage.layout else ""
        rows.add_row(
            usage.key.container, usage.state, usage.layout, confidence, str(counted), *cards[:2]
        )
    tree.close()
    console().print(rows)


def _show_feedback(root: Path) -> None:
    from hami_cache.cli.tables import console, table
    from hami_cache.monitor.feedback import Feedback
    from hami_cache.node.containers import ContainerKey, ContainerTree
    from hami_cache.node.pods import FilePods

    tree = ContainerTree(root)
    feedback = Feedback(tree)
    rows = table("", "container", ">priority", *(f"pass {n + 1}" for n in range(PASSES)), "why")
    rows.title = None
    names = {pod.uid: pod.name for pod in FilePods(root / "pods.json").view().pods.values()}
    kernels: dict[ContainerKey, list[str]] = {}
    for _ in range(PASSES):
        decisions = feedback.run()
        for decision in decisions:
            after = decision.recent_kernel_after
            kernels.setdefault(decision.container, []).append("-" if after is None else str(after))
        time.sleep(PASS_SECONDS)
    for decision in sorted(decisions, key=lambda d: names[d.container.pod_uid]):
        reason = decision.reason
        for uid, pod in names.items():
            reason = reason.replace(uid, pod)
        name = f"{names[decision.container.pod_uid]}/{decision.container.container}"
        priority = "-" if decision.priority is None else str(decision.priority)
        rows.add_row(name, priority, *kernels[decision.container], reason)
    feedback.close()
    tree.close()
    console().print(rows)
