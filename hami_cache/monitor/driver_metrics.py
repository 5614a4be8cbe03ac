"""What the driver says that a container's processes use, beside what its cache says.

The cache counts what libvgpu hooks; contexts, NCCL and other APIs use memory beside it. Neither
figure corrects the other: both are shown, and their difference as a figure of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client import Metric

from hami_cache.absent import Absent, total
from hami_cache.errors import HamiCacheError
from hami_cache.monitor.exposition import Family
from hami_cache.monitor.labels import LabelCache, Named
from hami_cache.node.devicefigures import DeviceUsage
from hami_cache.node.rows import DeviceRows, ProcessReader

DEVICE = ("namespace", "pod", "container", "vdevice_index", "device_uuid")
DISAGREEMENT = 0.10
"""A difference above this share of the driver's figure is an anomaly."""


class DriverMetrics:
    """The driver's view of containers' memory, read at most every few seconds.

    Args:
        reader: gives process rows of cards.
        every: seconds between two questions to the driver.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        reader: ProcessReader,
        every: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._every = every
        self._clock = clock
        self._asked: tuple[float, frozenset[str]] = (float("-inf"), frozenset())
        self._rows: Mapping[str, DeviceRows] = {}
        self.disagreeing: set[tuple[str, str, str]] = set()
        """Containers whose two figures differed too much in the last pass."""

    def families(self, named: Sequence[Named], labels: LabelCache) -> Iterable[Metric]:
        """The driver's figure and the difference, where all processes are known."""
        driver = Family(
            "hami_cache_driver_memory_bytes",
            "Device memory of the container's processes as the driver reports it.",
        )
        gap = Family(
            "hami_cache_driver_gap_bytes",
            "The driver's figure minus the cache's: memory that libvgpu does not see.",
        )
        self.disagreeing = set()
        rows = self._ask(frozenset(d.uuid for one in named for d in one.usage.devices))
        for one in named:
            if one.usage.hostpids is None:
                continue
            who = (one.namespace, one.pod, one.container)
            for device in one.usage.devices:
                value = _driver_memory(device, one.usage.hostpids, rows)
                if isinstance(value, Absent) or isinstance(device.total, Absent):
                    continue
                its = labels.get(DEVICE, (*who, str(device.index), device.uuid))
                driver.add(its, value)
                gap.add(its, value - device.total)
                if abs(value - device.total) > DISAGREEMENT * max(value, device.total):
                    self.disagreeing.add(who)
        yield from (driver, gap)

    def _ask(self, uuids: frozenset[str]) -> Mapping[str, DeviceRows]:
        now = self._clock()
        if now - self._asked[0] >= self._every or uuids != self._asked[1]:
            # The driver answers for the cards it has; what a tenant made up is reported unread.
            try:
                self._rows = {rows.id: rows for rows in self._reader.processes(sorted(uuids))}
            except HamiCacheError:
                self._rows = {}  # nobody can be asked: hami_cache_nvml_up says so
            self._asked = (now, uuids)
        return self._rows


def _driver_memory(
    device: DeviceUsage, hostpids: Sequence[int], rows: Mapping[str, DeviceRows]
) -> int | Absent:
    """The driver's bytes of these processes on one card; absent unless every one has a number."""
    card = rows.get(device.uuid)
    if card is None or card.memory_reason:
        return Absent(card.memory_reason if card else "transient_driver_error")
    mine = [row for row in card.rows if row.pid in hostpids]
    return total(
        Absent("unsupported") if row.memory_bytes is None else row.memory_bytes for row in mine
    )
