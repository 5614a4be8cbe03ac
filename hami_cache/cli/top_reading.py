"""What ``hami-cache top`` shows: passes over the node's caches, as plain lines."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hami_cache.errors import HamiCacheError
from hami_cache.model import AnomalyKind, Snapshot
from hami_cache.monitor.labels import Named, name_containers
from hami_cache.node.containers import ContainerKey, ContainerTree, TrackedCache
from hami_cache.node.devicefigures import DeviceUsage
from hami_cache.node.liveness import HostLiveness
from hami_cache.node.pods import PodSource
from hami_cache.node.usage import ContainerUsage, UsageReader
from hami_cache.spec.identify import Identification

CALM = ("ready", "empty")
"""States of a container that need nobody's attention."""


@dataclass(frozen=True, slots=True)
class Line:
    """One card of one container; a container without a readable card has one line, too.

    Attributes:
        named: the container.
        device: the card.
        last_kernel: seconds since the container's last kernel started; None where nobody knows.
    """

    named: Named
    device: DeviceUsage | None
    last_kernel: int | None

    @property
    def key(self) -> str:
        """Tells this line from all others of a pass, and stays the same in the next one."""
        usage = self.named.usage
        # A tenant may write one uuid twice; number and uuid together are there once.
        card = "" if self.device is None else f"{self.device.index}/{self.device.uuid}"
        return f"{usage.key.pod_uid}/{usage.key.container}/{card}"

    @property
    def name(self) -> tuple[str, str, str]:
        """Namespace, pod, container."""
        return self.named.namespace, self.named.pod, self.named.container

    @property
    def troubled(self) -> bool:
        """Somebody should look at the container."""
        return self.named.usage.state not in CALM or bool(self.named.usage.anomalies)


@dataclass(frozen=True, slots=True)
class Reading:
    """One pass.

    Attributes:
        lines: by namespace, pod and container, in the order of their cards.
        hidden: how many directories are not shown, by reason.
        taken: seconds since the epoch.
        seconds: how long the pass took.
    """

    lines: tuple[Line, ...]
    hidden: Mapping[str, int]
    taken: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Details:
    """One container in full.

    Attributes:
        caches: its files.
        anomalies: of the container, by the last pass: kind to detail.
    """

    caches: tuple[CacheDetail, ...]
    anomalies: Mapping[AnomalyKind, str]


@dataclass(frozen=True, slots=True)
class CacheDetail:
    """One cache file of a container, read in full.

    Attributes:
        name: the file's.
        state: of the file.
        detail: what speaks for its layout, or why it cannot be read.
        identification: None where it was not opened.
        snapshot: None where it could not be read.
    """

    name: str
    state: str
    detail: str
    identification: Identification | None = None
    snapshot: Snapshot | None = None


class NodeWatch:
    """Takes passes over a node; close it at the end. One thread's pass makes others wait.

    Args:
        hook_path: HAMi's HOOK_PATH.
        pods: names the containers; not closed with this.
        layouts: a folder of layout files searched first.
        host_proc: the host's /proc, to leave dead processes out of the sums; None counts all.
    """

    def __init__(
        self,
        hook_path: Path,
        pods: PodSource,
        *,
        layouts: Path | None = None,
        host_proc: Path | None = None,
    ) -> None:
        self._tree = ContainerTree(hook_path, layouts=layouts)
        liveness = None if host_proc is None else HostLiveness(host_proc)
        self._reader = UsageReader(self._tree, liveness=liveness)
        self._pods = pods
        self._usages: Mapping[ContainerKey, ContainerUsage] = {}
        self.hook_path = hook_path

    @property
    def root(self) -> Path | None:
        """Where the last pass found the container directories, None if nowhere."""
        return self._tree.root

    def take(self, *, complete: bool = False) -> Reading:
        """One pass.

        Args:
            complete: open every new file however long it takes, for a single pass.
        """
        started = time.perf_counter()
        usages = self._reader.read(complete=complete)
        self._usages = {usage.key: usage for usage in usages}
        now = time.time()
        lines: list[Line] = []
        hidden: Counter[str] = Counter()
        for one in name_containers(usages, self._pods.view()):
            if isinstance(one, Named):
                lines.extend(_lines(one, now))
            else:
                hidden[one[1]] += 1
        lines.sort(key=lambda line: line.name)
        return Reading(tuple(lines), hidden, now, time.perf_counter() - started)

    def details(self, key: ContainerKey) -> Details | None:
        """One container in full; None when it is gone."""
        with self._tree.lock:
            container = self._tree.containers.get(key)
            if container is None:
                return None
            usage = self._usages.get(key)
            caches = tuple(map(_detail, container.caches.values()))
            return Details(caches, {} if usage is None else usage.anomalies)

    def close(self) -> None:
        """Close every file."""
        with self._tree.lock:
            self._tree.close()


def _lines(named: Named, now: float) -> list[Line]:
    last = named.usage.last_kernel_time
    age = None if last is None else int(now) - last
    return [Line(named, device, age) for device in named.usage.devices or (None,)]


def _detail(tracked: TrackedCache) -> CacheDetail:
    if tracked.cache is None:
        return CacheDetail(tracked.name, tracked.state, tracked.detail)
    found = tracked.cache.identification
    try:
        snapshot = tracked.cache.snapshot()
    except HamiCacheError as error:
        return CacheDetail(tracked.name, "unreadable", error.message, found)
    return CacheDetail(tracked.name, tracked.state, found.detail, found, snapshot)
