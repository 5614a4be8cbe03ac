"""The monitor as a long-running program: its threads, its routes, its end.

Scrapes read the caches when they come; the feedback loop and the garbage collection run on threads
of their own and share nothing with a scrape but the tree of containers, one at a time.
"""

from __future__ import annotations

import logging
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from hami_cache.monitor.collector import NodeCollector
from hami_cache.monitor.exposition import CONTENT_TYPE, expose
from hami_cache.monitor.web import Request, Response, WebServer
from hami_cache.node.pods import PodSource

log = logging.getLogger(__name__)

TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Job:
    """Something done again and again on a thread of its own; a pass that raises is logged."""

    name: str
    seconds: float
    run: Callable[[], object]


class Service:
    """Serves metrics until told to stop.

    Args:
        collector: makes a scrape.
        pods: decides readiness.
        address: a Go listen address, ``:9394``.
        jobs: background work.
        pages: further routes by path, such as ``/slices``.
        web_config: the exporter toolkit's web configuration file.
    """

    def __init__(
        self,
        collector: NodeCollector,
        pods: PodSource,
        address: str,
        *,
        jobs: tuple[Job, ...] = (),
        pages: Mapping[str, Callable[[Request], Response]] | None = None,
        web_config: Path | None = None,
    ) -> None:
        self._collector = collector
        self._pods = pods
        self._jobs = jobs
        self._stop = threading.Event()
        self._ends: queue.SimpleQueue[int] = queue.SimpleQueue()
        routes: dict[str, Callable[[Request], Response]] = {
            "/metrics": self._metrics,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            **(pages or {}),
        }
        self._server = WebServer(address, routes, web_config=web_config)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._server.port

    def run(self) -> None:
        """Serve until SIGTERM, SIGINT or `stop`; ends within two seconds of it."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._server.start()
        threads = [
            threading.Thread(target=self._repeat, args=(job,), name=job.name, daemon=True)
            for job in self._jobs
        ]
        for thread in threads:
            thread.start()
        reason = self._ends.get()
        self._stop.set()
        if reason:
            log.info("received %s", signal.Signals(reason).name)
        self._server.stop()
        deadline = time.monotonic() + 0.5
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        log.info("stopped")

    def stop(self) -> None:
        """End `run`."""
        self._ends.put(0)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        # An Event could deadlock here: the signal may find this thread holding its lock.
        self._ends.put(number)

    def _repeat(self, job: Job) -> None:
        failed = ""
        while not self._stop.is_set():
            try:
                job.run()
                failed = ""
            except Exception as error:
                # The loop outlives whatever a tenant, the cluster or a bug does to one pass.
                if failed != repr(error):
                    log.exception("a pass of the %s failed", job.name)
                failed = repr(error)
            self._stop.wait(job.seconds)

    def _metrics(self, _request: Request) -> Response:
        return Response(200, CONTENT_TYPE, expose(self._collector.collect()))

    def _healthz(self, _request: Request) -> Response:
        """Alive: this thread answers, which is all that a restart could repair."""
        return Response(200, TEXT, b"ok\n")

    def _readyz(self, _request: Request) -> Response:
        """Ready: the pod list is there, so that a scrape does not look like an empty node."""
        if not self._pods.view().known:
            return Response(503, TEXT, b"the list of pods is not complete yet\n")
        return Response(200, TEXT, b"ok\n")
