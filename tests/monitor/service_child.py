"""A service in a process of its own: ``python -m tests.monitor.service_child ROOT [stuck]``.

With ``stuck``, a job and a page hang for ever, as one behind a dead driver would.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from hami_cache.monitor.buildinfo import BuildInfo
from hami_cache.monitor.collector import ExportOptions, NodeCollector
from hami_cache.monitor.logs import setup_logging
from hami_cache.monitor.service import Job, Service
from hami_cache.monitor.web import Request, Response
from hami_cache.monitor.webmessages import Route
from hami_cache.node.containers import ContainerTree
from hami_cache.node.pods import NoPods, PodSource
from hami_cache.node.usage import UsageReader

NEVER = threading.Event()


def make_service(
    root: Path,
    *,
    pods: PodSource | None = None,
    jobs: tuple[Job, ...] = (),
    pages: Mapping[str, Route] | None = None,
) -> Service:
    source = pods or NoPods()
    tree = ContainerTree(root)
    collector = NodeCollector(
        tree, UsageReader(tree), source, None, ExportOptions("node-a"), BuildInfo("1", "2", "3")
    )
    return Service(collector, source, "127.0.0.1:0", jobs=jobs, pages=pages)


def hang(_request: Request) -> Response:
    print("hanging", flush=True)
    NEVER.wait()
    raise AssertionError("nobody sets it")


def main() -> None:
    root, *kind = sys.argv[1:]
    setup_logging("json", "info")
    if kind:
        jobs = (Job("stuck job", 1.0, NEVER.wait),)
        make_service(Path(root), jobs=jobs, pages={"/hang": hang}).run()
    else:
        make_service(Path(root)).run()


if __name__ == "__main__":
    main()
