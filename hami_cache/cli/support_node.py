"""What a support bundle says of the node: directories, containers, cache files, and the cards."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from hami_cache.cli.roots import hook_path as checked
from hami_cache.cli.support_caches import (
    CacheFile,
    Document,
    Scope,
    cache_forms,
    container_forms,
    files_of,
)
from hami_cache.forensics.anomalies import Circumstances
from hami_cache.forensics.liveness import HostProcesses
from hami_cache.node.containers import ROOT_SHAPES, ContainerTree
from hami_cache.node.liveness import HostLiveness
from hami_cache.node.nvml_session import Nvml
from hami_cache.node.usage import UsageReader
from hami_cache.read.jsonform import figure


def documents(
    paths: Sequence[str],
    hook_path: Path | None,
    *,
    host_proc: Path | None,
    layouts: Path | None,
    tenants: bool,
) -> dict[str, object]:
    """One pass over everything.

    Args:
        paths: cache files by themselves.
        hook_path: where the containers' caches are; None leaves them out.
        host_proc: the host's /proc, to tell dead processes.
        layouts: a folder of layout files.
        tenants: with tenants' data.

    Raises:
        ConfigError: `hook_path` or `host_proc` is not what it should be.
    """
    host = None if host_proc is None else HostProcesses(host_proc)
    scope = Scope(tenants, Circumstances(host=host), layouts)
    files = [CacheFile(Path(path)) for path in paths]
    containers: list[Document] = []
    facts: Document = {}
    with contextlib.ExitStack() as opened:
        opened.enter_context(_silence())
        if hook_path is not None:
            tree = ContainerTree(checked(hook_path), layouts=layouts)
            opened.callback(tree.close)
            liveness = None if host_proc is None else HostLiveness(host_proc)
            usages = UsageReader(tree, liveness=liveness).read(complete=True)
            containers = container_forms(usages, scope)
            files.extend(files_of(tree.containers.values()))
            facts = _directories(tree)
        return {
            "node.json": {**facts, "driver": _driver()},
            "containers.json": containers,
            "caches.json": cache_forms(files, scope),
        }


def _directories(tree: ContainerTree) -> Document:
    containers = tree.containers.values()
    found = tree.root
    shapes = (shape for shape in ROOT_SHAPES if found is not None and found.match(f"*/{shape}"))
    states = Counter(tracked.state for c in containers for tracked in c.caches.values())
    return {
        "found_at": max(shapes, key=len, default=None),
        "containers": len(containers),
        "unreadable": sum(bool(container.problem) for container in containers),
        "crowded": sum(container.crowded for container in containers),
        "skipped": dict(Counter(tree.skipped.values())),
        "files": dict(states),
    }


def _driver() -> Document:
    with Nvml() as nvml:
        report = nvml.host_devices()
    return {
        "up": report.status.up,
        "reason": report.status.reason or None,
        "unreadable_cards": len(report.bad),
        "cards": [
            {
                "name": card.name,
                "memory_total": figure(card.memory_total),
                "mig_enabled": figure(card.mig_enabled),
            }
            for card in report.devices
        ],
    }


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep the log from saying what the bundle leaves out."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
