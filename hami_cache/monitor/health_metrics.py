"""The monitor's own health, as metrics of prometheus_client: counted over its whole life."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Gauge, Histogram, Metric

from hami_cache.monitor.buildinfo import BuildInfo
from hami_cache.monitor.exposition import Family, LabelSet
from hami_cache.node.nvml_reasons import FailedCall

PASS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Health:
    """What the monitor says about itself."""

    def __init__(self, build: BuildInfo) -> None:
        self.registry = CollectorRegistry()
        self._build = build
        self.pass_seconds = Histogram(
            "hami_cache_pass_duration_seconds",
            "How long reading all caches took.",
            buckets=PASS_BUCKETS,
            registry=self.registry,
        )
        self.last_pass = Gauge(
            "hami_cache_last_pass_timestamp_seconds",
            "When all caches were last read, in seconds since the epoch.",
            registry=self.registry,
        )
        self.collect_errors = Gauge(
            "hami_cache_collect_errors",
            "Parts of this scrape that failed and are missing from it.",
            registry=self.registry,
        )
        self.root_found = Gauge(
            "hami_cache_root_found",
            "Whether the container directories' root exists: 1 or 0.",
            registry=self.registry,
        )
        self.skipped = Gauge(
            "hami_cache_skipped_entries",
            "Entries beside the container directories that are not containers.",
            registry=self.registry,
        )
        self.pods_up = Gauge(
            "hami_cache_pods_source_up",
            "Whether the list of pods is complete and current: 1 or 0.",
            registry=self.registry,
        )

    def collect(self) -> Iterable[Metric]:
        """Everything counted so far, and the build."""
        yield from self.registry.collect()
        yield self._build_info()

    def _build_info(self) -> Metric:
        info = Family("hami_build_info", "What this program was built from; always 1.")
        labels = {
            "version": self._build.version,
            "revision": self._build.revision,
            "build_date": self._build.date,
            "go_version": "",
            "compiler": platform.python_implementation().lower(),
            "platform": f"linux/{_machine()}",
        }
        info.add(LabelSet(labels), 1)
        return info


def _machine() -> str:
    """The machine as Go names it, as upstream's label does."""
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def state_families(states: Mapping[str, int]) -> Iterable[Metric]:
    """Container directories by state, exported or not."""
    family = Family("hami_cache_containers", "Container directories by state.")
    for state, count in sorted(states.items()):
        family.add(LabelSet({"state": state}), count)
    yield family


def nvml_families(up: bool, reason: str, errors: Mapping[FailedCall, int]) -> Iterable[Metric]:
    """Whether NVML answers, and which of its calls failed."""
    state = Family("hami_cache_nvml_up", "Whether NVML can be used: 1 or 0, with the reason.")
    state.add(LabelSet({"reason": reason}), int(up))
    failed = Family("hami_cache_nvml_errors_total", "Failed NVML calls.", "counter")
    for call, count in sorted(errors.items(), key=str):
        labels = {"device": str(call.device), "call": call.call, "reason": call.reason}
        failed.add(LabelSet(labels), count)
    yield from (state, failed)
