"""From process rows to shares.

A sum that misses one term is not a smaller sum but a wrong one. So one row that cannot be
attributed takes every figure of its card with it, and `DeviceAccumulator.close` is the only way a
`Usage` comes out of here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from hami_cache.node.attribution import UNREADABLE_REASONS, Attribution
from hami_cache.node.rows import DeviceRows, ProcessRow
from hami_cache.slices.section import (
    BOUNDED,
    INVALID_DATA,
    MAX_DEVICES,
    MAX_USAGES,
    NOT_MEASURED,
    Device,
    Section,
    Usage,
    device_key,
    to_mib,
    usage_key,
)

Capacities = Mapping[tuple[str, str], int]
"""The cards' memory in MiB by manufacturer and UUID; 0 or missing is unknown."""

Resolve = Callable[[Sequence[int]], Mapping[int, Attribution]]
"""Attributes the pids of one card."""

NameOf = Callable[[Attribution], str]
"""The name of an attributed container, "" if nobody knows it."""

MAX_BYTES = 2**64 - 1
UNRESOLVED = "unresolved"
"""Reason of a card on which a row was refused without one."""


class _Sums:
    """One container's running sums on one card, in the driver's units."""

    __slots__ = ("cores", "cores_complete", "memory", "memory_complete")

    def __init__(self) -> None:
        self.memory = 0
        self.memory_complete = True
        self.cores = 0
        self.cores_complete = True


class DeviceAccumulator:
    """One card's shares in the making.

    Args:
        manufacturer: such as ``nvidia``.
        card: what was read; its rows are then handed over one by one, each exactly once.
        capacity_mib: the card's memory, 0 where unknown.
    """

    def __init__(self, manufacturer: str, card: DeviceRows, capacity_mib: int = 0) -> None:
        self._manufacturer = manufacturer
        self._card = card
        self._capacity_mib = capacity_mib
        self._sums: dict[tuple[str, str], _Sums] = {}
        self._poison = ""
        self._attributed = self._non_instance = self._unreadable = self._ambiguous = 0

    def add(self, pod_uid: str, container: str, row: ProcessRow) -> None:
        """A row of a known container."""
        self._attributed += 1
        if self._poison:
            return
        sums = self._sums.get((pod_uid, container))
        if sums is None:
            sums = self._sums[pod_uid, container] = _Sums()
        if row.memory_bytes is None:
            sums.memory_complete = False
        else:
            sums.memory += row.memory_bytes
        if row.cores_percent is None:
            sums.cores_complete = False
        else:
            sums.cores += row.cores_percent

    def exclude(self) -> None:
        """A row of a pod that backs no instance: real, and nobody's share."""
        self._non_instance += 1

    def poison(self, reason: str) -> None:
        """A row that could not be attributed: from here on there are no sums to publish.

        The first reason given stands for the card, `UNRESOLVED` where none was.
        """
        if reason in UNREADABLE_REASONS:
            self._unreadable += 1
        else:
            self._ambiguous += 1
        if self._poison in ("", UNRESOLVED):
            self._poison = reason or UNRESOLVED
        self._sums.clear()

    def close(self) -> tuple[list[Usage], Device]:
        """The card's shares and its account: the one exit."""
        memory_reason = self._poison or self._contradiction() or self._card.memory_reason
        cores_reason = self._poison or self._card.cores_reason
        usages = [
            Usage(
                self._manufacturer,
                pod_uid,
                container,
                self._card.id,
                NOT_MEASURED if memory_reason or not sums.memory_complete else to_mib(sums.memory),
                NOT_MEASURED if cores_reason or not sums.cores_complete else min(sums.cores, 100),
            )
            for (pod_uid, container), sums in self._sums.items()
        ]
        return usages, Device(
            self._manufacturer,
            self._card.id,
            memory_reason,
            cores_reason,
            rows_returned=len(self._card.rows),
            rows_attributed=self._attributed,
            rows_non_instance=self._non_instance,
            rows_unreadable=self._unreadable,
            rows_ambiguous=self._ambiguous,
            reads_truncated=self._card.reads_truncated,
        )

    def _contradiction(self) -> str:
        """Rows that add up to more than the card holds are not to be believed for any container.

        So are sums past 64 bits, which no card can hold either.
        """
        sums = self._sums.values()
        used_mib = sum(to_mib(s.memory) for s in sums)
        past_card = 0 < self._capacity_mib < used_mib
        return INVALID_DATA if past_card or any(s.memory > MAX_BYTES for s in sums) else ""


def aggregate(
    groups: Iterable[tuple[str, Iterable[DeviceRows]]],
    *,
    capacities: Capacities,
    resolve: Resolve,
    name_of: NameOf,
) -> Section | None:
    """Aggregate the rows of every card.

    Args:
        groups: the cards read, by manufacturer. Cards past the 256th are left out; a card whose
            shares would pass 4096 in all keeps its account, with reason ``bounded``, and loses all
            its shares.
        capacities: the cards' memory.
        resolve: attributes one card's pids; called once for each card.
        name_of: names the attributed container.

    Returns:
        None if no card was read, which is not the same as an empty section.
    """
    usages: list[Usage] = []
    devices: list[Device] = []
    truncated = False
    for manufacturer, cards in groups:
        for card in cards:
            if len(devices) == MAX_DEVICES:
                truncated = True
                break
            capacity = capacities.get((manufacturer, card.id), 0)
            shares, device = _card_shares(manufacturer, card, capacity, resolve, name_of)
            if len(usages) + len(shares) > MAX_USAGES:
                truncated = True
                shares = []
                device = replace(device, memory_reason=BOUNDED, cores_reason=BOUNDED)
            usages += shares
            devices.append(device)
    if not devices:
        return None
    return Section(
        tuple(sorted(usages, key=usage_key)),
        tuple(sorted(devices, key=device_key)),
        truncated=truncated,
    )


def _card_shares(
    manufacturer: str, card: DeviceRows, capacity_mib: int, resolve: Resolve, name_of: NameOf
) -> tuple[list[Usage], Device]:
    accumulator = DeviceAccumulator(manufacturer, card, capacity_mib)
    attributions = resolve([row.pid for row in card.rows])
    for row in card.rows:
        attribution = attributions.get(row.pid)
        if attribution is None:
            accumulator.poison("")
        elif attribution.outcome == "excluded":
            accumulator.exclude()
        elif attribution.outcome == "unattributed":
            accumulator.poison(attribution.reason)
        elif name := name_of(attribution):
            accumulator.add(attribution.pod_uid, name, row)
        else:
            accumulator.poison("unknown_container")
    return accumulator.close()
