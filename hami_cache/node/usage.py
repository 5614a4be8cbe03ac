"""What every container of this node uses, from one native pass over all their caches.

This is where a cache's figures become a container's: several caches of one container are summed,
figures that cannot be trusted are absent, and what is wrong gets its name.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hami_cache.absent import Absent
from hami_cache.model import AnomalyKind
from hami_cache.node.containers import Container, ContainerKey, ContainerTree, TrackedCache
from hami_cache.node.devicefigures import (
    DeviceUsage,
    Reading,
    device_usage,
    doubt_of,
    merged,
    unmeasured,
)
from hami_cache.node.usagesigns import choose, note_cache, note_device, state_of
from hami_cache.node.uuids import UuidReader
from hami_cache.read import seqlock
from hami_cache.read.cache import Cache
from hami_cache.read.seqlock import DEFAULT_BOUNDS, Bounds, NativePass
from hami_cache.spec.table import offset_table


class Liveness(Protocol):
    """Says which of a cache's processes are dead, as somebody who sees the host's processes."""

    def dead(self, processes: Sequence[tuple[int, int, int]], touched_ns: int) -> list[bool]:
        """For each (pid, hostpid, status): whether its process is surely gone."""
        ...


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """What one container uses, and how well we know.

    Attributes:
        key: pod UID and container name, as the directory says.
        state: ``ready``, ``empty`` (no cache yet), or why no cache of it can be read.
        layout: the layout of the (first) cache that was read; "" when none was.
        header_version: what its header says, ``1.2``; "" for layouts without a version.
        confidence: 0..1.
        devices: those with a readable uuid, by device number.
        processes: slots by state: running, suspended, exited, dead, odd.
        anomalies: kind to detail.
        last_kernel_time: seconds since the epoch; None when it was never set.
        hostpids: of the counted processes; None where one is not known, or nobody asked.
    """

    key: ContainerKey
    state: str
    layout: str = ""
    header_version: str = ""
    confidence: float = 0.0
    devices: tuple[DeviceUsage, ...] = ()
    processes: Mapping[str, int] = field(default_factory=dict)
    anomalies: Mapping[AnomalyKind, str] = field(default_factory=dict)
    last_kernel_time: int | None = None
    priority: int | None = None
    recent_kernel: int | None = None
    utilization_switch: int | None = None
    retries: int = 0
    torn: int = 0
    hostpids: tuple[int, ...] | None = None


class UsageReader:
    """Reads the usage of every container of a tree.

    Args:
        tree: the containers; `read` refreshes it.
        bounds: how long a pass may wait for writers.
        liveness: leaves dead processes out of the sums; None counts every slot, as upstream does.
        hostpids: find out the host pids of the counted processes too.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        tree: ContainerTree,
        *,
        bounds: Bounds = DEFAULT_BOUNDS,
        liveness: Liveness | None = None,
        hostpids: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tree = tree
        self._bounds = bounds
        self._liveness = liveness
        self._hostpids = hostpids
        self._processes: dict[int, list[int]] = {}
        self._clock = clock
        self._uuids = UuidReader()
        self._planned: tuple[Cache, ...] = ()
        self._plan: NativePass | None = None
        self._skips: list[array[int]] = []

    @property
    def root(self) -> Path | None:
        """Where the container directories were found by the last pass, None if nowhere."""
        return self._tree.root

    def read(self, *, complete: bool = False) -> list[ContainerUsage]:
        """One pass: look at the disk, read all figures, give them their meaning.

        Args:
            complete: open every new file however long it takes, for a single pass.
        """
        with self._tree.lock:
            self._tree.refresh(complete=complete)
            containers = list(self._tree.containers.values())
            ready = [t for c in containers for t in c.caches.values() if t.cache is not None]
            readings = self._read(ready)
            self._uuids.keep(ready)
            return [self._usage(container, readings) for container in containers]

    def _read(self, ready: Sequence[TrackedCache]) -> dict[int, Reading]:
        """One native call over all open caches; by id of the tracked cache."""
        if not ready:
            self._plan, self._planned = None, ()
            return {}
        caches = tuple(t.cache for t in ready if t.cache is not None)
        if self._plan is None or caches != self._planned:
            self._skips = [array("i", [0]) * offset_table(c.layout).slot_count for c in caches]
            pairs = zip(caches, self._skips, strict=True)
            self._plan = NativePass([cache.target(skip=skip) for cache, skip in pairs])
            # The caches themselves, not their ids: a closed one must never be taken for a new one.
            self._planned = caches
        self._processes = {}
        if self._liveness is not None or self._hostpids:
            for tracked, skip in zip(ready, self._skips, strict=True):
                self._look_at_processes(tracked, skip)
        self._plan.run(self._bounds)
        found = self._plan.lists()
        return {
            id(tracked): Reading(tracked, report, values, flags)
            for tracked, report, values, flags in zip(
                ready, found.reports, found.values, found.flags, strict=True
            )
        }

    def _look_at_processes(self, tracked: TrackedCache, skip: array[int]) -> None:
        """Mark the slots of dead processes, and keep the host pids of the others."""
        assert tracked.cache is not None
        found = seqlock.processes(tracked.cache.target()) or []
        if self._liveness is not None:
            dead = self._liveness.dead(found, tracked.mtime_ns)
            gone = (hostpid * left for (_, hostpid, _), left in zip(found, dead, strict=True))
            skip[:] = array("i", gone) + array("i", [0]) * (len(skip) - len(found))
        self._processes[id(tracked)] = [
            0 if hostpid == pid else hostpid
            for (pid, hostpid, status), left_out in zip(found, skip, strict=False)
            if status != 0 and not left_out
        ]

    def _known_hostpids(self, chosen: Iterable[Reading]) -> tuple[int, ...] | None:
        """The host pids of all counted processes; None as soon as one of them is not known."""
        if not self._hostpids:
            return None
        pids = [pid for r in chosen for pid in self._processes.get(id(r.tracked), [0])]
        return tuple(dict.fromkeys(pids)) if all(pids) else None

    def _usage(self, container: Container, readings: Mapping[int, Reading]) -> ContainerUsage:
        anomalies: dict[AnomalyKind, str] = {}
        mine = [readings[id(t)] for t in container.caches.values() if id(t) in readings]
        read = [r for r in mine if r.report["status"] == seqlock.STATUS_READ]
        chosen = choose(read, anomalies)
        state = state_of(container, mine, chosen, anomalies)
        if not chosen:
            return ContainerUsage(container.key, state, anomalies=anomalies)
        first = chosen[0]
        cache = first.tracked.cache
        assert cache is not None
        for reading in chosen:
            note_cache(reading, anomalies, self._clock())
        devices = merged([self._devices(reading, anomalies) for reading in chosen])
        version = cache.layout.identity.version
        return ContainerUsage(
            container.key,
            state,
            layout=cache.layout.name,
            header_version=str(version) if version else "",
            confidence=cache.identification.confidence,
            devices=tuple(devices),
            processes=_process_states(chosen),
            anomalies=anomalies,
            last_kernel_time=max((r.report["last_kernel_time"] for r in chosen), default=0) or None,
            priority=first.report["priority"],
            recent_kernel=first.report["recent_kernel"],
            utilization_switch=first.report["utilization_switch"],
            retries=sum(r.report["retries"] for r in mine),
            torn=sum(r.report["torn"] for r in mine),
            hostpids=self._known_hostpids(chosen),
        )

    def _devices(self, reading: Reading, anomalies: dict[AnomalyKind, str]) -> list[DeviceUsage]:
        cache = reading.tracked.cache
        assert cache is not None
        room = offset_table(cache.layout).device_count
        number = min(reading.report["device_num"], len(reading.rows), room)
        uuids = self._uuids.read(reading.tracked, number)
        doubt = doubt_of(cache.identification.verdict, reading)
        idle_doubt = unmeasured(reading, number)
        if not cache.layout.has("procs.device_util.sm"):
            idle_doubt = Absent("not_in_layout")
        devices = []
        for index, uuid in enumerate(uuids):
            if isinstance(uuid, Absent):
                anomalies.setdefault("uuid_unreadable", uuid.detail)
                continue
            row, flags = reading.rows[index], reading.flags[index]
            device = device_usage(index, uuid, row, flags, doubt, idle_doubt)
            note_device(device, anomalies)
            devices.append(device)
        return devices


def _process_states(chosen: Iterable[Reading]) -> dict[str, int]:
    names = {
        "running": "running",
        "suspended": "suspended",
        "exited": "exited",
        "skipped": "dead",
        "odd_status": "odd",
    }
    states = dict.fromkeys(names.values(), 0)
    for reading in chosen:
        for column, name in names.items():
            states[name] += reading.report[column]
    return states
