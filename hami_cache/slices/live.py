"""Passes over this very node: its pods, its driver, its processes and its caches."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from hami_cache.absent import Absent
from hami_cache.errors import HamiCacheError
from hami_cache.node.attribution import proc_reader
from hami_cache.node.nvml_session import Nvml
from hami_cache.node.pods import PodSource, PodView
from hami_cache.node.rows import MANUFACTURER_NVIDIA
from hami_cache.node.usage import ContainerUsage, UsageReader
from hami_cache.slices.charges import charges, limits, silences
from hami_cache.slices.collect import Collected, Sources, collect, known_pods


class LiveSlices:
    """Takes passes, one at a time, for any number of threads.

    Args:
        pods: who runs here and holds which card.
        nvml: the driver, started; None leaves its figures out.
        reader: the caches; None leaves theirs out.
        host_proc: the /proc of the processes that the driver speaks of; without it the driver is
            asked for partitions only, since nobody could say whose its processes are.
    """

    def __init__(
        self,
        pods: PodSource,
        *,
        nvml: Nvml | None = None,
        reader: UsageReader | None = None,
        host_proc: Path | None = None,
    ) -> None:
        self._pods = pods
        self._nvml = nvml
        self._reader = reader
        self._proc = None if host_proc is None else proc_reader(host_proc)
        self._capacities: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def collect(self, *, complete: bool = False) -> Collected:
        """Take one pass.

        Args:
            complete: open every new cache however long it takes, for a single pass.
        """
        with self._lock:
            view = self._pods.view()
            collected = collect(known_pods(view), self._sources(view, complete))
            problems = (*self._blindness(view), *collected.problems)
        return replace(collected, problems=problems)

    def _blindness(self, view: PodView) -> Iterator[HamiCacheError]:
        """What this pass cannot have seen."""
        if self._reader is not None and self._reader.root is None:
            hint = "is HOOK_PATH or --hook-path HAMi's directory?"
            yield HamiCacheError("there are no container directories", hint=hint)
        if self._nvml is not None and not view.authoritative:
            yield HamiCacheError(
                "the source of pods does not know which cards they hold, so none is asked",
                hint="give --pods api or file:PATH",
            )

    def _sources(self, view: PodView, complete: bool) -> Sources:
        readings = () if self._reader is None else self._reader.read(complete=complete)
        usages = list(_of_this_node(readings, view))
        readers = {} if self._nvml is None else {MANUFACTURER_NVIDIA: self._nvml}
        return Sources(
            processes=readers,
            partitions=readers,
            proc=self._proc,
            capacities=self._known_capacities(),
            charges=tuple(charges(usages)),
            silent=tuple(silences(usages)),
            limits=limits(usages),
        )

    def _known_capacities(self) -> dict[tuple[str, str], int]:
        """The cards' memory in MiB. It does not change, so what was once read holds for good."""
        if self._nvml is not None:
            for card in self._nvml.host_devices().devices:
                if not isinstance(card.memory_total, Absent):
                    self._capacities[MANUFACTURER_NVIDIA, card.uuid] = card.memory_total >> 20
        return self._capacities


def _of_this_node(usages: Iterable[ContainerUsage], view: PodView) -> Iterable[ContainerUsage]:
    """The containers of pods that run here, as far as the source of pods can tell.

    A cache outlives its pod. Before there is a list nobody can say which has, nor which cards a
    tenant may speak of, so none counts.
    """
    for usage in usages:
        pod = view.pods.get(usage.key.pod_uid)
        runs = not view.authoritative if pod is None else not pod.ended
        if view.known and runs:
            yield usage
