"""Where the driver and the caches disagree about a container's share, as metrics."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Metric

from hami_cache.monitor.exposition import Family, LabelSet
from hami_cache.monitor.slices_page import SlicesPage
from hami_cache.node.pods import PodSource, PodView
from hami_cache.slices.findings import Finding


class SlicesMetrics:
    """The findings of the newest pass, for `NodeCollector`; an old pass has none to show.

    Args:
        page: where the passes are.
        pods: the names behind the pods' UIDs.
    """

    def __init__(self, page: SlicesPage, pods: PodSource) -> None:
        self._page = page
        self._pods = pods

    def collect(self) -> Iterable[Metric]:
        """All families of this moment."""
        disagreement = Family(
            "hami_cache_slice_disagreement",
            "The driver and the cache are more than a tenth apart on this figure; always 1.",
        )
        over_limit = Family(
            "hami_cache_slice_over_limit",
            "By one of the sources the share is above the container's or the card's limit; "
            "always 1.",
        )
        measured = Family(
            "hami_cache_slices_measured", "Whether there is a slice section of now: 1 or 0."
        )
        last_pass = Family(
            "hami_cache_slices_last_pass_timestamp_seconds",
            "When the newest slice pass began, in seconds since the epoch.",
        )
        newest, current = self._page.newest, self._page.current()
        none = LabelSet({})
        measured.add(none, int(current is not None and current.collected.section is not None))
        if newest is not None:
            last_pass.add(none, newest.time)
        view = self._pods.view()
        for finding in () if current is None else current.collected.findings:
            family = disagreement if finding.kind == "source_disagreement" else over_limit
            family.add(_labels(finding, view), 1)
        yield from (disagreement, over_limit, measured, last_pass)


def _labels(finding: Finding, view: PodView) -> LabelSet:
    """Those of the container's other metrics: a pod that nobody knows goes by its UID."""
    pod = view.pods.get(finding.pod_uid)
    return LabelSet(
        {
            "namespace": pod.namespace if pod else "",
            "pod": pod.name if pod else finding.pod_uid,
            "container": finding.container,
            "device_uuid": finding.device_id,
            "figure": finding.figure,
        }
    )
