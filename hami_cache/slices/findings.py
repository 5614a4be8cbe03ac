"""Where the driver and a cache say different things of one container on one card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hami_cache.absent import Absent, or_else
from hami_cache.slices.section import Figure, Usage

Kind = Literal["source_disagreement", "over_limit", "not_measured"]
FigureName = Literal["memory", "cores"]

TOLERANCE = 0.1
"""How far sources may be apart: a tenth of the larger memory figure, of a card for cores."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the two sources that an operator should see.

    Attributes:
        kind: ``source_disagreement``; ``over_limit`` for memory above the container's limit or the
            card's; ``not_measured`` for a figure that neither source could give (see `gaps.py`).
        pod_uid: the pod.
        container: the container's name.
        device_id: the card.
        figure: which of the two figures.
        driver: the driver's, in MiB or percent.
        cache: the cache's, in the same unit.
    """

    kind: Kind
    pod_uid: str
    container: str
    device_id: str
    figure: FigureName
    driver: Figure
    cache: Figure


def compare(driver: Usage, cache: Usage, capacity_mib: int, limit_mib: int) -> list[Finding]:
    """Compare what the two sources say of one container on one card.

    Args:
        driver: the driver's word.
        cache: the cache's.
        capacity_mib: the card's memory, 0 where unknown.
        limit_mib: the container's limit, 0 for none.
    """
    memory = (driver.memory_used_mib, cache.memory_used_mib)
    cores = (driver.cores_percent, cache.cores_percent)
    most = max(or_else(mib, 0) for mib in memory)
    bounds = [mib for mib in (capacity_mib, limit_mib) if mib > 0]
    found: list[tuple[Kind, FigureName, tuple[Figure, Figure]]] = []
    # Memory was rounded to whole MiB on either side, so one apart is no disagreement.
    if _apart(*memory, slack=max(1.0, TOLERANCE * most)):
        found.append(("source_disagreement", "memory", memory))
    if _apart(*cores, slack=TOLERANCE * 100):
        found.append(("source_disagreement", "cores", cores))
    if bounds and most > min(bounds):
        found.append(("over_limit", "memory", memory))
    return [
        Finding(kind, cache.pod_uid, cache.container, cache.device_id, name, *figures)
        for kind, name, figures in found
    ]


def _apart(driver: Figure, cache: Figure, *, slack: float) -> bool:
    if isinstance(driver, Absent) or isinstance(cache, Absent):
        return False
    return abs(driver - cache) > slack
