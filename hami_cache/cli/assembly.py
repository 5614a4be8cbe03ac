"""The monitor, put together from its parts as the command line asks."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hami_cache.cli.pods import open_pods
from hami_cache.monitor.buildinfo import build_info
from hami_cache.monitor.collector import ExportOptions, NodeCollector
from hami_cache.monitor.exposition import Source, expose
from hami_cache.monitor.feedback import Feedback
from hami_cache.monitor.labels import Named
from hami_cache.monitor.loop_metrics import FeedbackMetrics, ReaperMetrics
from hami_cache.monitor.reaper import Reaper
from hami_cache.monitor.service import Job, Service
from hami_cache.monitor.slices_metrics import SlicesMetrics
from hami_cache.monitor.slices_page import SlicesPage
from hami_cache.monitor.status import About, status_view
from hami_cache.monitor.statuspage import CONTENT_TYPE, HEADERS, render
from hami_cache.monitor.statusview import Condition
from hami_cache.monitor.webmessages import Request, Response
from hami_cache.node.cluster import ClusterPods
from hami_cache.node.containers import ContainerTree
from hami_cache.node.liveness import HostLiveness
from hami_cache.node.nodename import node_name
from hami_cache.node.nvml_session import Nvml
from hami_cache.node.pods import PodSource
from hami_cache.node.usage import UsageReader
from hami_cache.read.seqlock import one_heap
from hami_cache.slices.live import LiveSlices

FEEDBACK_SECONDS = 5.0
"""Upstream's period: recent_kernel counts these passes."""

REAP_SECONDS = 60.0
"""How often at least the directories of pods that are gone are looked for."""

SLICE_SECONDS = 15.0
POD_LIST_WAIT = 10.0
STATUS_SECONDS = 5.0
"""How old a pass the status page may show: reloading it must not cost a pass each time."""


@dataclass(frozen=True, slots=True)
class MonitorOptions:
    """Everything that the monitor can be told; see `monitor --help`."""

    address: str
    hook_path: Path
    once: bool
    pods: str
    resync: float
    layouts: Path | None
    legacy: bool
    read_only: bool
    feedback: bool
    gc: bool
    gc_dry_run: bool
    host_proc: Path | None
    nvml: bool
    board: bool
    release_nvml: bool
    vendor_once: bool
    web_config: Path | None


class Monitor:
    """All parts of a running monitor; close it at the end."""

    def __init__(self, options: MonitorOptions, parts: contextlib.ExitStack) -> None:
        self._options = options
        self._started = time.monotonic()
        self._node = node_name()
        wait = POD_LIST_WAIT if options.once else 0.0
        self.pods = parts.enter_context(
            contextlib.closing(open_pods(options.pods, self._node, wait=wait))
        )
        self.tree = parts.enter_context(
            contextlib.closing(ContainerTree(options.hook_path, layouts=options.layouts))
        )
        self.nvml = parts.enter_context(_nvml(options)) if options.nvml else None
        self.feedback = Feedback(
            self.tree, read_only=options.read_only or options.once, layouts=options.layouts
        )
        self.reaper = Reaper(
            self.tree,
            self.pods,
            options.resync,
            enabled=options.gc,
            dry_run=options.gc_dry_run,
            orphaned=self.feedback.leave_out,
        )
        live = LiveSlices(
            self.pods, nvml=self.nvml, reader=self._reader(), host_proc=options.host_proc
        )
        self.slices = SlicesPage(live.collect, SLICE_SECONDS)
        self._build = build_info()
        extra: list[Source] = [SlicesMetrics(self.slices, self.pods)]
        if options.feedback:
            extra.append(FeedbackMetrics(self.feedback, self._named))
        if options.gc:
            extra.append(ReaperMetrics(self.reaper))
        self.collector = NodeCollector(
            self.tree,
            self._reader(hostpids=self.nvml is not None),
            self.pods,
            self.nvml,
            ExportOptions(self._node.name, options.legacy, options.board, options.vendor_once),
            self._build,
            extra,
            pods_up=self._pods_up,
        )

    def _pods_up(self) -> bool:
        if isinstance(self.pods, ClusterPods):
            return self.pods.health().up
        return self.pods.view().known

    def _named(self) -> Sequence[Named]:
        last = self.collector.last
        return last.named if last is not None else ()

    def _reader(self, *, hostpids: bool = False) -> UsageReader:
        proc = self._options.host_proc
        liveness = HostLiveness(proc) if proc is not None else None
        return UsageReader(self.tree, liveness=liveness, hostpids=hostpids)

    def once(self) -> int:
        """Print one scrape."""
        self.collector.reading(complete=True)
        self.slices.run()
        sys.stdout.write(expose(self.collector.collect()).decode())
        return 0

    def serve(self) -> int:
        """Serve until a signal ends it."""
        options = self._options
        jobs = [Job("slices", SLICE_SECONDS, self.slices.run)]
        if options.feedback:
            jobs.append(Job("feedback loop", FEEDBACK_SECONDS, self.feedback.run))
        if options.gc:
            seconds = min(REAP_SECONDS, options.resync)
            jobs.append(Job("garbage collection", seconds, self.reaper.run))
        pages: dict[str, Callable[[Request], Response]] = {
            "/": self._status,
            "/slices": self.slices.respond,
        }
        service = Service(
            self.collector,
            self.pods,
            options.address,
            jobs=tuple(jobs),
            pages=pages,
            web_config=options.web_config,
        )
        service.run()
        return 0

    def _status(self, _request: Request) -> Response:
        about = About(self._node.name, self._build.version, {"/slices": "slices"})
        view = status_view(
            about,
            self.collector.reading(newer_than=STATUS_SECONDS),
            root=str(self.tree.root or self._options.hook_path),
            uptime=time.monotonic() - self._started,
            conditions=self._conditions(),
        )
        return Response(200, CONTENT_TYPE, render(view), HEADERS)

    def _conditions(self) -> dict[str, Condition]:
        options = self._options
        found = self.tree.root is not None
        conditions = {
            "caches": Condition("ok" if found else "bad", "" if found else "no such directory"),
            "pods": _pods_condition(options.pods, self.pods),
        }
        if self.nvml is None:
            conditions["NVML"] = Condition("off", "--no-nvml")
        else:
            status = self.nvml.status
            conditions["NVML"] = Condition("ok" if status.up else "bad", status.reason)
        conditions["feedback"] = (
            Condition("ok", f"{self.feedback.writes} writes")
            if options.feedback
            else Condition("off", "it writes into no cache")
        )
        conditions["garbage collection"] = (
            Condition("ok", f"{self.reaper.removed} removed")
            if options.gc
            else Condition("off", "it removes nothing")
        )
        return conditions


def run_monitor(options: MonitorOptions) -> int:
    """Build the monitor, and print once or serve; the exit code."""
    _allow_many_files()
    one_heap()
    with contextlib.ExitStack() as parts:
        monitor = Monitor(options, parts)
        return monitor.once() if options.once else monitor.serve()


def _nvml(options: MonitorOptions) -> Nvml:
    return Nvml(board_readings=options.board, keep_open=not options.release_nvml)


def _pods_condition(spec: str, pods: PodSource) -> Condition:
    view = pods.view()
    if not view.known:
        return Condition("bad", f"{spec}: no list yet")
    return Condition("ok", f"{spec}: {len(view.pods)} pods")


def _allow_many_files() -> None:
    """Every open cache keeps a descriptor: raise our soft limit to what we may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
