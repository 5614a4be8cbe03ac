"""One scrape: read every cache and every card, and turn them into metric families.

Each part fails alone: what raises is left out of this scrape, counted and logged once; the rest
comes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import Metric

from hami_cache.errors import HamiCacheError
from hami_cache.monitor.buildinfo import BuildInfo
from hami_cache.monitor.cache_metrics import CacheMetrics
from hami_cache.monitor.container_metrics import (
    container_families,
    legacy_families,
    legacy_mig_families,
    mig_families,
)
from hami_cache.monitor.driver_metrics import DriverMetrics
from hami_cache.monitor.exposition import Source
from hami_cache.monitor.health_metrics import Health, nvml_families, state_families
from hami_cache.monitor.host_metrics import board_families, host_families, legacy_host_families
from hami_cache.monitor.labels import LabelCache, Named, name_containers
from hami_cache.node.containers import ContainerTree
from hami_cache.node.nvml_session import Nvml
from hami_cache.node.nvml_status import HostReport
from hami_cache.node.once import Once
from hami_cache.node.pods import PodSource
from hami_cache.node.usage import UsageReader

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What a scrape contains.

    Attributes:
        node: the label ``node`` of the host's metrics.
        legacy: upstream's old names too.
        board: temperature, power and memory errors of the cards.
        vendor_once: spell a card's type with its vendor once.
    """

    node: str
    legacy: bool = False
    board: bool = False
    vendor_once: bool = False


@dataclass(frozen=True, slots=True)
class NodeReading:
    """What the last pass found: the status page and the slices show it again."""

    named: Sequence[Named]
    report: HostReport | None
    states: Counter[str]
    taken: float


class NodeCollector:
    """The metrics of this node, as a collector of prometheus_client's.

    Args:
        tree: the containers' caches.
        reader: reads them.
        pods: who the containers are.
        nvml: the cards; None leaves the host's metrics out.
        options: what to export.
        build: for ``hami_build_info``.
        pods_up: whether the pods' source works at this moment.
        extra: further sources of families, such as the feedback loop.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        tree: ContainerTree,
        reader: UsageReader,
        pods: PodSource,
        nvml: Nvml | None,
        options: ExportOptions,
        build: BuildInfo,
        extra: Sequence[Source] = (),
        pods_up: Callable[[], bool] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tree = tree
        self._reader = reader
        self._pods = pods
        self._nvml = nvml
        self._driver = None if nvml is None else DriverMetrics(nvml)
        self._options = options
        self._extra = extra
        self._pods_up = pods_up
        self._clock = clock
        self._labels = LabelCache()
        self._caches = CacheMetrics()
        self._health = Health(build)
        self._once = Once(log)
        self._lock = threading.Lock()
        self._failures = 0
        self.last: NodeReading | None = None

    def collect(self) -> Iterator[Metric]:
        """All families; one scrape at a time, others wait."""
        with self._lock:
            self._failures = 0
            try:
                reading = self._read()
            except Exception as error:
                reading = self._failed("reading", error)
            if self._driver is not None:
                driver = self._driver
                yield from self._part(
                    "driver", lambda: driver.families(reading.named, self._labels)
                )
            yield from self._part("containers", lambda: self._containers(reading))
            if self._nvml is not None:
                nvml = self._nvml
                yield from self._part("host", lambda: self._host(nvml, reading.report))
            for source in self._extra:
                yield from self._part(type(source).__name__, source.collect)
            self._health.collect_errors.set(self._failures)
            yield from self._part("health", self._health.collect)
            self._labels.end_pass()

    def reading(self, *, newer_than: float = 0.0, complete: bool = False) -> NodeReading:
        """What a pass finds, without making metrics of it.

        Args:
            newer_than: an older pass will do, if it was taken at most so many seconds ago.
            complete: open every new file however long it takes, for a single pass.
        """
        with self._lock:
            last = self.last
            if last is not None and self._clock() - last.taken < newer_than:
                return last
            return self._read(complete)

    def _read(self, complete: bool = False) -> NodeReading:
        started = time.perf_counter()
        usages = self._reader.read(complete=complete)
        self._health.pass_seconds.observe(time.perf_counter() - started)
        self._health.last_pass.set(self._clock())
        self._health.root_found.set(self._tree.root is not None)
        self._health.skipped.set(len(self._tree.skipped))
        view = self._pods.view()
        self._health.pods_up.set(self._pods_up() if self._pods_up else view.known)
        states: Counter[str] = Counter()
        named: list[Named] = []
        for one in name_containers(usages, view):
            if isinstance(one, Named):
                named.append(one)
                states[one.usage.state] += 1
            else:
                states[one[1]] += 1
        named.sort(key=lambda one: (one.namespace, one.pod, one.container))
        report = None if self._nvml is None else self._nvml.host_devices()
        self.last = NodeReading(named, report, states, self._clock())
        return self.last

    def _containers(self, reading: NodeReading) -> Iterable[Metric]:
        now = self._clock()
        yield from container_families(reading.named, self._labels, now)
        yield from mig_families(reading.named, self._labels, self._complain)
        disagreeing = self._driver.disagreeing if self._driver else ()
        yield from self._caches.families(reading.named, self._labels, disagreeing)
        yield from state_families(reading.states)
        if self._options.legacy:
            yield from legacy_families(reading.named, self._labels, now)
            yield from legacy_mig_families(reading.named, self._labels)

    def _host(self, nvml: Nvml, report: HostReport | None) -> Iterable[Metric]:
        options = self._options
        if report is not None:
            yield from host_families(
                report, options.node, self._labels, vendor_once=options.vendor_once
            )
            if options.legacy:
                yield from legacy_host_families(report, options.node, self._labels)
            if options.board:
                yield from board_families(report, options.node, self._labels)
        yield from nvml_families(nvml.status.up, nvml.status.reason, nvml.errors)

    def _complain(self, error: HamiCacheError) -> None:
        self._failures += 1
        self._once.warn(str(error.path or error.field), "%s", error)

    def _failed(self, name: str, error: Exception) -> NodeReading:
        """Count and log the failure of a part; what a scrape has then read is nothing."""
        self._failures += 1
        if self._once.first(f"part {name}", type(error).__name__):
            log.error("the %s part of a scrape failed", name, exc_info=error)
        return NodeReading((), None, Counter(), self._clock())

    def _part(self, name: str, families: Callable[[], Iterable[Metric]]) -> list[Metric]:
        """One part of the scrape, complete or not at all."""
        try:
            made = list(families())
        except Exception as error:
            # Nothing that a tenant, a driver or a bug of ours does may cost the other parts.
            self._failed(name, error)
            return []
        self._once.clear(f"part {name}")
        return made
