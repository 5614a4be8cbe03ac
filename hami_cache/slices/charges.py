"""What a container's own cache charges it with: a second source, which needs no /proc."""

from __future__ import annotations

from dataclasses import dataclass

from hami_cache.absent import Absent


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
