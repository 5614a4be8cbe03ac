"""The feedback loop and the garbage collection as metrics: every state, not only changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import Metric

from hami_cache.monitor.exposition import Family, LabelSet
from hami_cache.monitor.feedback import Feedback
from hami_cache.monitor.labels import Named
from hami_cache.monitor.reaper import Reaper


class FeedbackMetrics:
    """What the feedback loop last decided, for `NodeCollector`.

    Args:
        feedback: the loop.
        named: the containers of the current scrape.
    """

    def __init__(self, feedback: Feedback, named: Callable[[], Sequence[Named]]) -> None:
        self._feedback = feedback
        self._named = named

    def collect(self) -> Iterable[Metric]:
        """All families of this moment."""
        blocked = Family(
            "hami_cache_feedback_blocked",
            "A more urgent task runs on one of the container's cards: 1 or 0.",
        )
        switch = Family(
            "hami_cache_feedback_utilization_switch",
            "Whether the loop lets the container's core limit work: 1 or 0.",
        )
        kernel = Family(
            "hami_cache_feedback_recent_kernel",
            "recent_kernel after the last pass: above 0 launched lately, -1 told to wait.",
        )
        writes = Family(
            "hami_cache_feedback_writes_total", "Caches that the loop has written.", "counter"
        )
        failures = Family(
            "hami_cache_feedback_failures_total", "Caches that it could not write.", "counter"
        )
        names = {one.usage.key: one for one in self._named()}
        for decision in self._feedback.decisions:
            one = names.get(decision.container)
            if one is None or decision.outcome is None:
                continue
            its = LabelSet(
                {
                    "namespace": one.namespace,
                    "pod": one.pod,
                    "container": one.container,
                    "cache": decision.cache,
                }
            )
            blocked.add(its, int(decision.blocked))
            switch.add(its, decision.outcome.switch)
            kernel.add(its, decision.outcome.recent_kernel)
        writes.add(LabelSet({}), self._feedback.writes)
        failures.add(LabelSet({}), self._feedback.failures)
        yield from (blocked, switch, kernel, writes, failures)


class ReaperMetrics:
    """What the garbage collection has done, for `NodeCollector`."""

    def __init__(self, reaper: Reaper) -> None:
        self._reaper = reaper

    def collect(self) -> Iterable[Metric]:
        """All families of this moment."""
        for name, text, value in (
            ("removed", "Directories removed.", self._reaper.removed),
            ("refused", "Refusals to remove, counted each run.", self._reaper.refused),
            ("failed", "Removals that failed, counted each run.", self._reaper.failed),
        ):
            family = Family(f"hami_cache_gc_{name}_total", text, "counter")
            family.add(LabelSet({}), value)
            yield family
