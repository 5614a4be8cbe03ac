"""The caches as a second source: they fill what the driver's per-process pass left absent.

Figure by figure, the driver's is published where it measured one and the cache's where it did not;
no figure is ever made of both. Where both have one and they disagree, the driver's stands and the
disagreement is handed on. A card's reasons stay as the driver's pass left them: a figure beside a
reason is a cache's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hami_cache.absent import Absent, or_else
from hami_cache.node.rows import MANUFACTURER_NVIDIA
from hami_cache.slices.aggregate import Capacities
from hami_cache.slices.charges import Charge
from hami_cache.slices.figures import idle_figures
from hami_cache.slices.findings import Finding, compare
from hami_cache.slices.section import (
    BOUNDED,
    MAX_DEVICES,
    MAX_USAGES,
    NOT_MEASURED,
    Device,
    Figure,
    Partition,
    Section,
    Usage,
    device_key,
    to_mib,
    usage_key,
)

Key = tuple[str, str, str]
"""Pod UID, container name, device UUID."""

Limits = Mapping[Key, int]
"""Containers' memory limits in bytes; 0 or missing is no limit."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A section with the caches' figures in it, and what was noticed on the way."""

    section: Section | None
    findings: tuple[Finding, ...] = ()


def merge(
    section: Section | None,
    charges: Iterable[Charge],
    *,
    capacities: Capacities | None = None,
    limits: Limits | None = None,
) -> Merged:
    """Fill what the driver left absent with what the caches measured.

    Args:
        section: the driver's passes; None if they could not measure.
        charges: one for each container and card; where there are two, neither is believed.
        capacities: the cards' memory. A charge above it is not published, nor is any charge of a
            card whose published memory would pass it.
        limits: the containers' own limits; both sources are held against them.

    Returns:
        The section, None if there was none and no cache filled anything.
    """
    cards: dict[str, list[Usage]] = {}
    for share in _shares(charges):
        cards.setdefault(share.device_id, []).append(share)
    merger = _Merger(section or Section(), capacities or {}, limits or {})
    for device_id in sorted(cards):
        merger.merge_card(device_id, sorted(cards[device_id], key=usage_key))
    merged = merger.section()
    return Merged(section if merged == Section() else merged, tuple(merger.findings))


class _Merger:
    """A section while the caches' figures go into it, card by card."""

    def __init__(self, section: Section, capacities: Capacities, limits: Limits) -> None:
        self._section = section
        self._capacities = capacities
        self._limits = limits
        # Of records with one key a reader takes the first, so that one is the driver's word.
        self._usages: dict[str, dict[Key, Usage]] = {}
        for usage in reversed(section.usages):
            if _ours(usage):
                self._usages.setdefault(usage.device_id, {})[_who(usage)] = usage
        self._devices = {d.device_id: d for d in reversed(section.devices) if _ours(d)}
        self._partitions = {
            (p.pod_uid, p.container, device_id): p
            for p in reversed(section.partitions)
            if _ours(p)
            for device_id in (p.device_id, p.id)
        }
        self._usage_count = len(section.usages)
        self._filled: dict[Key, Usage] = {}
        self._new_devices: list[Device] = []
        self._truncated = False
        self.findings: list[Finding] = []

    def merge_card(self, device_id: str, cached: Sequence[Usage]) -> None:
        """Compare a card's cached shares with the driver's, and publish what fills a gap."""
        capacity_mib = self._capacities.get((MANUFACTURER_NVIDIA, device_id), 0)
        for share in cached:
            limit_mib = to_mib(self._limits.get(_who(share), 0))
            self.findings += compare(self._driver_share(share), share, capacity_mib, limit_mib)
        fills = self._fills([_within(share, capacity_mib) for share in cached])
        if 0 < capacity_mib < self._published_mib(device_id, fills):
            # Some of them cannot be true, and nothing says which.
            fills = self._fills([_without_memory(share) for share in cached])
        if fills:
            self._publish(device_id, fills)

    def section(self) -> Section:
        """What the passes and the caches say together."""
        filled = dict(self._filled)
        usages = [
            filled.pop(_who(usage), usage) if _ours(usage) else usage
            for usage in self._section.usages
        ]
        return replace(
            self._section,
            usages=tuple(sorted([*usages, *filled.values()], key=usage_key)),
            devices=tuple(sorted([*self._section.devices, *self._new_devices], key=device_key)),
            truncated=self._section.truncated or self._truncated,
        )

    def _driver_share(self, cached: Usage) -> Usage:
        """What the driver's passes say of the same container and card, in words or by silence."""
        if partition := self._partitions.get(_who(cached)):
            # Its cores are percent of the partition, the cache's are percent of the card.
            return replace(
                cached, memory_used_mib=partition.memory_used_mib, cores_percent=NOT_MEASURED
            )
        if usage := self._usages.get(cached.device_id, {}).get(_who(cached)):
            return usage
        device = self._devices.get(cached.device_id)
        if device is None:
            return replace(cached, memory_used_mib=NOT_MEASURED, cores_percent=NOT_MEASURED)
        idle = idle_figures(device)
        memory, cores = _first(idle.memory_used_mib), _first(idle.cores_percent)
        return replace(cached, memory_used_mib=memory, cores_percent=cores)

    def _fills(self, cached: Sequence[Usage]) -> list[Usage]:
        """The shares that say more than the driver's passes did.

        A partition's record answers alone, and a card that was dropped for the bounds stays
        dropped.
        """
        fills = []
        for share in cached:
            device = self._devices.get(share.device_id)
            dropped = device is not None and device.memory_reason == BOUNDED
            if dropped or _who(share) in self._partitions:
                continue
            driver = self._driver_share(share)
            filled = replace(
                driver,
                memory_used_mib=_first(driver.memory_used_mib, share.memory_used_mib),
                cores_percent=_first(driver.cores_percent, share.cores_percent),
            )
            if filled != driver:
                fills.append(filled)
        return fills

    def _published_mib(self, device_id: str, fills: Sequence[Usage]) -> int:
        shares = {**self._usages.get(device_id, {}), **{_who(fill): fill for fill in fills}}
        return sum(or_else(share.memory_used_mib, 0) for share in shares.values())

    def _publish(self, device_id: str, fills: Sequence[Usage]) -> None:
        """Take the fills in, all of the card's or none."""
        unlisted = device_id not in self._devices
        if unlisted and len(self._section.devices) + len(self._new_devices) == MAX_DEVICES:
            self._truncated = True
            return
        reason = NOT_MEASURED.reason
        new = len({_who(fill) for fill in fills} - self._usages.get(device_id, {}).keys())
        if self._usage_count + new > MAX_USAGES:
            self._truncated = True
            reason = BOUNDED
        else:
            self._usage_count += new
            self._filled.update((_who(fill), fill) for fill in fills)
        if unlisted:
            self._new_devices.append(Device(MANUFACTURER_NVIDIA, device_id, reason, reason))


def share_of(charge: Charge) -> Usage:
    """A charge in the section's units."""
    memory, percent = charge.memory_bytes, charge.sm_percent
    return Usage(
        MANUFACTURER_NVIDIA,
        charge.pod_uid,
        charge.container,
        charge.device_id,
        memory if isinstance(memory, Absent) else to_mib(memory),
        percent if isinstance(percent, Absent) else min(percent, 100),
    )


def _shares(charges: Iterable[Charge]) -> list[Usage]:
    """The charges as shares; of two for one container and card, neither."""
    shares = [share_of(charge) for charge in charges]
    times = Counter(_who(share) for share in shares)
    return [share for share in shares if times[_who(share)] == 1]


def _ours(record: Usage | Device | Partition) -> bool:
    """Caches exist for this manufacturer's cards only."""
    return record.manufacturer == MANUFACTURER_NVIDIA


def _who(usage: Usage) -> Key:
    return (usage.pod_uid, usage.container, usage.device_id)


def _first(*figures: Figure) -> Figure:
    """The first source that measured the figure."""
    return next((f for f in figures if not isinstance(f, Absent)), NOT_MEASURED)


def _within(share: Usage, capacity_mib: int) -> Usage:
    """The share, without a memory figure that no card can hold."""
    impossible = 0 < capacity_mib < or_else(share.memory_used_mib, 0)
    return _without_memory(share) if impossible else share


def _without_memory(share: Usage) -> Usage:
    return replace(share, memory_used_mib=NOT_MEASURED)
