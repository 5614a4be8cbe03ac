"""Our own metrics about containers' caches: which layout, how sure, what is wrong."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from prometheus_client import Metric

from hami_cache.monitor.exposition import Family
from hami_cache.monitor.labels import LabelCache, Named

CONTAINER = ("namespace", "pod", "container")


class CacheMetrics:
    """Families of `hami_cache_...` about containers; counts retries and torn reads by container."""

    def __init__(self) -> None:
        self._retries: dict[tuple[str, ...], int] = {}
        self._torn: dict[tuple[str, ...], int] = {}

    def families(
        self,
        named: Sequence[Named],
        labels: LabelCache,
        disagreeing: Container[tuple[str, str, str]] = (),
    ) -> Iterable[Metric]:
        """All families for this pass's containers.

        Args:
            named: the containers to export.
            labels: keeps label sets between scrapes.
            disagreeing: (namespace, pod, container) whose cache and driver differ too much.
        """
        info = Family("hami_cache_info", "How the container's cache is read; always 1.")
        state = Family("hami_cache_state", "State of the container's cache; always 1.")
        processes = Family("hami_cache_processes", "Process slots of the container by state.")
        anomaly = Family("hami_cache_anomaly", "An anomaly is present; always 1.")
        retries = Family(
            "hami_cache_read_retries_total",
            "Repeated attempts at reading while it changed.",
            "counter",
        )
        torn = Family(
            "hami_cache_torn_reads_total", "Slots that never came to rest during a read.", "counter"
        )
        kept_retries: dict[tuple[str, ...], int] = {}
        kept_torn: dict[tuple[str, ...], int] = {}
        for one in named:
            usage = one.usage
            who = (one.namespace, one.pod, one.container)
            state.add(labels.get((*CONTAINER, "state"), (*who, usage.state)), 1)
            kinds = [*usage.anomalies, *(["source_disagreement"] if who in disagreeing else [])]
            for kind in kinds:
                anomaly.add(labels.get((*CONTAINER, "kind"), (*who, kind)), 1)
            if not usage.layout:
                continue
            names = (*CONTAINER, "layout", "header_version", "confidence")
            confidence = f"{usage.confidence:.2f}"
            values = (*who, usage.layout, usage.header_version, confidence)
            info.add(labels.get(names, values), 1)
            for name, count in usage.processes.items():
                processes.add(labels.get((*CONTAINER, "state"), (*who, name)), count)
            kept_retries[who] = self._retries.get(who, 0) + usage.retries
            kept_torn[who] = self._torn.get(who, 0) + usage.torn
            retries.add(labels.get(CONTAINER, who), kept_retries[who])
            torn.add(labels.get(CONTAINER, who), kept_torn[who])
        self._retries, self._torn = kept_retries, kept_torn
        yield from (info, state, processes, anomaly, retries, torn)
