"""What a container's own cache charges it with: a second source, which needs no /proc."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hami_cache.absent import Absent
from hami_cache.node.usage import ContainerUsage


@dataclass(frozen=True, slots=True)
class Charge:
    """One container's use of one card by its cache.

    Attributes:
        pod_uid: from the cache's directory, so nothing the tenant writes can change it.
        container: the container's name, likewise.
        device_id: the card's UUID as the cache spells it.
        memory_bytes: the sum over the counted processes in bytes, or why there is none.
        sm_percent: the sum of their SM utilization in percent, or why there is none.
    """

    pod_uid: str
    container: str
    device_id: str
    memory_bytes: int | Absent
    sm_percent: int | Absent


_REASONS = {
    "layout_mixed": "unknown_layout",
    "layout_ambiguous": "unknown_layout",
    "sum_overflow": "counter_underflow",
}
"""The readers' reasons in the words of the slices; others are passed on as they are."""


def charges(usages: Iterable[ContainerUsage]) -> Iterator[Charge]:
    """The charges of every container whose cache names its devices.

    A container whose cache cannot be read has no devices to charge and gives nothing. Where a dead process
    cannot be told from a live one nothing is added or left out: the cache's sum is what it says.
    """
    for usage in usages:
        for device in usage.devices:
            yield Charge(
                usage.key.pod_uid,
                usage.key.container,
                device.uuid,
                _renamed(device.total),
                _renamed(device.sm_util),
            )


def limits(usages: Iterable[ContainerUsage]) -> dict[tuple[str, str, str], int]:
    """The memory limits in bytes by (pod UID, container, device UUID), where one is set."""
    return {
        (usage.key.pod_uid, usage.key.container, device.uuid): device.limit
        for usage in usages
        for device in usage.devices
        if device.limit
    }


def _renamed(figure: int | Absent) -> int | Absent:
    if isinstance(figure, Absent) and figure.reason in _REASONS:
        return Absent(_REASONS[figure.reason], figure.detail)
    return figure
