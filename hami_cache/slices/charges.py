"""What a container's own cache charges it with: a second source, which needs no /proc."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from hami_cache.absent import Absent
from hami_cache.node.allocations import Allocation, Mode
from hami_cache.node.rows import MANUFACTURER_NVIDIA
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


@dataclass(frozen=True, slots=True)
class Silence:
    """A container whose cache leaves cards unnamed, and why."""

    pod_uid: str
    container: str
    reason: Absent


NO_CACHE = Absent("no_cache", "no cache of this container was read")
STALE = Absent("stale_process", "every process in the cache is gone from the host")

_REASONS = {
    "layout_mixed": "unknown_layout",
    "layout_ambiguous": "unknown_layout",
    "sum_overflow": "counter_underflow",
    "empty": NO_CACHE.reason,
    "unsettled": "torn",
}
"""The readers' reasons and states in the words of the slices; others are passed on as they are."""


def charges(usages: Iterable[ContainerUsage]) -> Iterator[Charge]:
    """The charges of every container whose cache names its devices.

    Processes that the reader knows to be dead are not in its sums. A cache in which nobody is alive
    says nothing of now, and may only look so from a /proc that is not the host's: it has no figures
    rather than zeros.
    """
    for usage in usages:
        stale = _only_dead(usage)
        for device in usage.devices:
            yield Charge(
                usage.key.pod_uid,
                usage.key.container,
                device.uuid,
                STALE if stale else _told(device.total),
                STALE if stale else _told(device.sm_util),
            )


def limits(usages: Iterable[ContainerUsage]) -> dict[tuple[str, str, str], int]:
    """The memory limits in bytes by (pod UID, container, device UUID), where one is set."""
    return {
        (usage.key.pod_uid, usage.key.container, device.uuid): device.limit
        for usage in usages
        for device in usage.devices
        if device.limit
    }


def silences(usages: Iterable[ContainerUsage]) -> Iterator[Silence]:
    """The containers whose cache cannot be read, or has a card whose UUID cannot."""
    for usage in usages:
        detail = "; ".join(usage.anomalies.values())
        if not usage.layout:
            reason = _renamed(Absent(usage.state, detail))
        elif "uuid_unreadable" in usage.anomalies:
            reason = Absent("uuid_unreadable", detail)
        else:
            continue
        yield Silence(usage.key.pod_uid, usage.key.container, reason)


def unnamed(
    charged: Iterable[Charge],
    silent: Collection[Silence],
    held: Iterable[tuple[str, Allocation]],
) -> Iterator[Charge]:
    """Charges without figures: the shares that the allocations name and the caches do not.

    Where the allocation leaves the container open, as HAMi's does, any silent container of the pod
    may be the one.

    Args:
        charged: what the caches do name.
        silent: whose caches do not.
        held: pod UID and allocation.
    """
    known = {(charge.pod_uid, charge.container, charge.device_id) for charge in charged}
    reasons: dict[str, dict[str, Absent]] = {}
    for silence in silent:
        reasons.setdefault(silence.pod_uid, {})[silence.container] = silence.reason
    for pod_uid, allocation in held:
        if allocation.mode != Mode.SLICED or allocation.manufacturer != MANUFACTURER_NVIDIA:
            continue
        mine = reasons.get(pod_uid, {})
        for container in [allocation.container] if allocation.container else mine:
            key = (pod_uid, container, allocation.device_id)
            if key not in known:
                known.add(key)
                reason = mine.get(container, NO_CACHE)
                yield Charge(*key, reason, reason)


def _only_dead(usage: ContainerUsage) -> bool:
    alive = sum(usage.processes.get(state, 0) for state in ("running", "suspended", "odd"))
    return usage.processes.get("dead", 0) > 0 and not alive


def _told(figure: int | Absent) -> int | Absent:
    return _renamed(figure) if isinstance(figure, Absent) else figure


def _renamed(absence: Absent) -> Absent:
    return Absent(_REASONS.get(absence.reason, absence.reason), absence.detail)
