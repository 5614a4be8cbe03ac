"""Whose numbers these are: the labels of containers, made once and kept while they last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hami_cache.monitor.exposition import LabelSet
from hami_cache.node.containers import ContainerKey
from hami_cache.node.pods import Pod, PodView
from hami_cache.node.usage import ContainerUsage

ZONE = "vGPU"
"""The constant label ``zone`` of every metric that upstream has, except the build information."""


@dataclass(frozen=True, slots=True)
class Named:
    """A container with the names to export it under."""

    usage: ContainerUsage
    namespace: str
    pod: str
    container: str
    object: Pod | None


def name_containers(
    usages: Iterable[ContainerUsage], view: PodView
) -> Iterator[Named | tuple[ContainerKey, str]]:
    """Pair containers with their pods, by the pod UID in the directory's name alone.

    Yields what to export; for the rest (key, reason): ``pod_ended``, ``pod_unknown`` (an
    authoritative list does not have it: its directory waits for removal) or ``pods_not_synced``.
    Without a source that could know, the pod's UID stands in for its name.
    """
    for usage in usages:
        pod = view.pods.get(usage.key.pod_uid)
        if pod is not None and pod.ended:
            yield usage.key, "pod_ended"
        elif pod is not None:
            yield Named(usage, pod.namespace, pod.name, usage.key.container, pod)
        elif not view.known:
            yield usage.key, "pods_not_synced"
        elif view.authoritative:
            yield usage.key, "pod_unknown"
        else:
            yield Named(usage, "", usage.key.pod_uid, usage.key.container, None)


@dataclass(slots=True)
class LabelCache:
    """Label sets by what they say; those not asked for during a pass are forgotten at its end.

    Tenants choose uuids, so this must not grow with the number of scrapes.
    """

    _old: dict[tuple[str, ...], LabelSet] = field(default_factory=dict)
    _new: dict[tuple[str, ...], LabelSet] = field(default_factory=dict)

    def get(self, names: tuple[str, ...], values: tuple[str, ...]) -> LabelSet:
        """The label set of these names and values, in this order."""
        key = names + values
        labels = self._new.get(key)
        if labels is None:
            labels = self._old.get(key) or LabelSet(dict(zip(names, values, strict=True)))
            self._new[key] = labels
        return labels

    def end_pass(self) -> None:
        """Forget what this pass did not use."""
        self._old, self._new = self._new, {}
