"""Hardware partitions: who holds which, and what their own handles say.

A partition's tenant is known from the allocation before anything is read, so no process and no
/proc is involved, and a neighbour's unknown process cannot take a partition's figures away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hami_cache.errors import HamiCacheError
from hami_cache.node.allocations import Allocation, Mode
from hami_cache.node.rows import PartitionReader, PartitionRow, PartitionTarget
from hami_cache.slices.aggregate import Capacities
from hami_cache.slices.section import (
    INVALID_DATA,
    MAX_PARTITIONS,
    NOT_MEASURED,
    Figure,
    Partition,
    Section,
    to_mib,
    usage_key,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """A partition and the container that holds it by its pod's allocation."""

    pod_uid: str
    container: str
    target: PartitionTarget


@dataclass(frozen=True, slots=True)
class ClaimedRow:
    """What was read of a claimed partition."""

    manufacturer: str
    pod_uid: str
    container: str
    row: PartitionRow


def claims(held: Iterable[tuple[str, Allocation]]) -> dict[str, list[Claim]]:
    """The partitions to read, by manufacturer.

    A partition needs a profile and a placement. One that is claimed twice, by whomever and under
    whatever UUID, has at least one false claimant, so all are dropped.

    Args:
        held: pod UID and allocation; a pod without a UID claims nothing.
    """
    claimed: dict[str, list[Claim]] = {}
    for pod_uid, allocation in held:
        whole = allocation.profile and allocation.placements
        if allocation.mode != Mode.PARTITIONED or not pod_uid or not whole:
            continue
        target = PartitionTarget(
            allocation.device_id, allocation.profile, allocation.placements, allocation.partition_id
        )
        claimed.setdefault(allocation.manufacturer, []).append(
            Claim(pod_uid, allocation.container, target)
        )
    single = {manufacturer: _claimed_once(found) for manufacturer, found in claimed.items()}
    return {manufacturer: found for manufacturer, found in single.items() if found}


def read_claimed(
    claimed: Mapping[str, Sequence[Claim]],
    readers: Mapping[str, PartitionReader],
    problems: list[HamiCacheError],
) -> list[ClaimedRow]:
    """Read every claimed partition that somebody can read.

    A manufacturer without a reader and a target that its reader leaves out give nothing; so does a
    reader that fails, which is named in `problems`. Of two answers for a target the first counts.
    """
    rows = []
    for manufacturer in sorted(claimed.keys() & readers.keys()):
        wanted = claimed[manufacturer]
        try:
            answers = list(readers[manufacturer].partitions([claim.target for claim in wanted]))
        except HamiCacheError as problem:
            problems.append(problem)
            continue
        by_place = {_place(answer): answer for answer in reversed(answers)}
        rows += [
            ClaimedRow(manufacturer, claim.pod_uid, claim.container, answer)
            for claim in wanted
            if (answer := by_place.get(_place(claim.target))) is not None
        ]
    return rows


def with_partitions(
    section: Section | None, rows: Sequence[ClaimedRow], capacities: Capacities
) -> Section | None:
    """Add the partitions to the section of the per-process pass, or make one of them alone.

    Rows past the 4096th are left out. Without any row the section stays what it was, even None.
    """
    if not rows:
        return section
    section = section or Section()
    room = max(MAX_PARTITIONS - len(section.partitions), 0)
    added = [
        _partition(claimed, capacities.get((claimed.manufacturer, claimed.row.device_id), 0))
        for claimed in rows[:room]
    ]
    return replace(
        section,
        partitions=tuple(sorted([*section.partitions, *added], key=usage_key)),
        truncated=section.truncated or len(rows) > room,
    )


def _claimed_once(found: list[Claim]) -> list[Claim]:
    claimants = Counter(_place(claim.target) for claim in found)
    return [claim for claim in found if claimants[_place(claim.target)] == 1]


def _place(partition: PartitionTarget | PartitionRow) -> tuple[object, ...]:
    """What tells one partition from another: not its UUID, which is re-used and may be unknown."""
    return (partition.device_id, partition.profile, partition.placements)


def _partition(claimed: ClaimedRow, capacity_mib: int) -> Partition:
    row = claimed.row
    total: Figure = NOT_MEASURED
    used: Figure = NOT_MEASURED
    memory_reason = row.memory_reason
    if row.memory_total_bytes is not None and row.memory_used_bytes is not None:
        total_mib, used_mib = to_mib(row.memory_total_bytes), to_mib(row.memory_used_bytes)
        if 0 < capacity_mib < max(total_mib, used_mib):
            # Both came off one handle: if one is impossible the other is not believed either.
            memory_reason = INVALID_DATA
        else:
            total, used = total_mib, used_mib
    return Partition(
        claimed.manufacturer,
        claimed.pod_uid,
        claimed.container,
        row.device_id,
        id=row.id,
        memory_total_mib=total,
        memory_used_mib=used,
        cores_percent=NOT_MEASURED if row.cores_percent is None else row.cores_percent,
        memory_reason=memory_reason,
        cores_reason=row.cores_reason,
    )
