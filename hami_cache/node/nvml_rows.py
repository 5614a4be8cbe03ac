"""One pass over the processes and partitions of cards: what the driver answers, as rows.

Cards are addressed by UUID, and partitions by the UUID their allocation recorded: an index says
nothing about which card a container holds. What two cards, or two partitions, claim as their UUID
addresses neither.

The rules are those of GPUStack's NVIDIA detector, with which the slice section has to agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from hami_cache.node.nvml import NOT_AVAILABLE, Driver, DriverCallError, Listing, Memory
from hami_cache.node.nvml_cards import Card, cards, count_cards
from hami_cache.node.nvml_reasons import ErrorCounts, partition_reason, process_reason
from hami_cache.node.rows import (
    TRANSIENT_DRIVER_ERROR,
    UNSUPPORTED,
    DeviceRows,
    PartitionRow,
    PartitionTarget,
    ProcessRow,
)

MAX_PARTITIONS: Final = 64
"""Partition indexes of a card that are looked at: the driver's count is not believed further."""

T = TypeVar("T")


def read_processes(
    driver: Driver, device_ids: Sequence[str], errors: ErrorCounts
) -> list[DeviceRows]:
    """Read the process lists and utilization samples of cards.

    Args:
        driver: open.
        device_ids: UUIDs of the cards.
        errors: counts the calls that failed.

    Returns:
        One entry per requested card, in that order; a card that no handle answers for is reported
        unread.

    Raises:
        DriverCallError: the cards cannot even be counted.
    """
    found = _cards_by_uuid(driver, errors)
    return [_read_card(driver, uuid, found.get(uuid), errors) for uuid in device_ids]


def compose_rows(uuid: str, processes: Listing, samples: Listing) -> DeviceRows:
    """Put the two answers of one card together.

    The newest sample of a process counts, of equally new ones the later; a listed process without
    one is idle. A process that stands only among the samples has left, unless the list itself could
    not be read: then the samples are all there is, and no process has a memory figure.
    """
    memory_reason, cores_reason = process_reason(processes.code), process_reason(samples.code)
    newest = {} if cores_reason else _newest_samples(samples)
    if memory_reason:
        rows = [ProcessRow(pid, None, newest[pid]) for pid in sorted(newest)]
    else:
        rows = [
            ProcessRow(
                pid=pid,
                memory_bytes=None if used == NOT_AVAILABLE else used,
                cores_percent=None if cores_reason else newest.get(pid, 0),
            )
            for pid, used in _first_of_each_pid(processes)
        ]
    return DeviceRows(uuid, memory_reason, cores_reason, tuple(rows))


def read_partitions(
    driver: Driver, targets: Sequence[PartitionTarget], errors: ErrorCounts
) -> list[PartitionRow]:
    """Read partitions, each on its own handle.

    Args:
        driver: open.
        targets: what the allocations recorded.
        errors: counts the calls that failed.

    Returns:
        One row per target, in that order. Cores are always `unsupported`: NVML has no figure for a
        partition.

    Raises:
        DriverCallError: the cards cannot even be counted.
    """
    found = _cards_by_uuid(driver, errors)
    parents = {
        uuid: _look_into(driver, found.get(uuid), errors)
        for uuid in dict.fromkeys(target.device_id for target in targets)
    }
    return [_read_partition(driver, t, parents[t.device_id], errors) for t in targets]


def _cards_by_uuid(driver: Driver, errors: ErrorCounts) -> Mapping[str, Card]:
    answering = cards(driver, count_cards(driver), errors)
    return _unambiguous((c.uuid, c) for c in answering if isinstance(c, Card))


def _unambiguous(pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    """What each name stands for, without the names that stand for several things."""
    found: dict[str, T] = {}
    twice = set()
    for name, value in pairs:
        if name in found:
            twice.add(name)
        found[name] = value
    return {name: value for name, value in found.items() if name not in twice}


def _read_card(driver: Driver, uuid: str, card: Card | None, errors: ErrorCounts) -> DeviceRows:
    if card is None:
        return DeviceRows(uuid, TRANSIENT_DRIVER_ERROR, TRANSIENT_DRIVER_ERROR)
    processes = driver.compute_processes(card.handle)
    samples = driver.utilization_samples(card.handle)
    for listing in (processes, samples):
        if reason := process_reason(listing.code):
            errors.add(card.index, listing.call, reason)
    return compose_rows(uuid, processes, samples)


def _newest_samples(samples: Listing) -> dict[int, int]:
    """SM percent by pid."""
    newest: dict[int, tuple[int, int]] = {}
    for pid, time_stamp, sm_percent, *_ in samples.rows:
        if pid not in newest or time_stamp >= newest[pid][0]:
            newest[pid] = time_stamp, sm_percent
    return {pid: sm_percent for pid, (_, sm_percent) in newest.items()}


def _first_of_each_pid(processes: Listing) -> Iterable[tuple[int, int]]:
    first: dict[int, int] = {}
    for pid, used, *_ in processes.rows:
        first.setdefault(pid, used)
    return first.items()


@dataclass(frozen=True, slots=True)
class _Parent:
    """What a card says about its partitions.

    Attributes:
        card: None when no handle answers for it.
        mode_reason: why it has none ("" in MIG mode).
        walk_reason: why they could not be gone through.
        handles: by UUID.
    """

    card: Card | None = None
    mode_reason: str = ""
    walk_reason: str = ""
    handles: Mapping[str, object] = field(default_factory=dict)


def _look_into(driver: Driver, card: Card | None, errors: ErrorCounts) -> _Parent:
    if card is None:
        return _Parent(mode_reason=TRANSIENT_DRIVER_ERROR)
    try:
        if not driver.mig_enabled(card.handle):
            return _Parent(card, mode_reason=UNSUPPORTED)
    except DriverCallError as error:
        return _Parent(card, mode_reason=_counted(error, card, errors))
    try:
        capacity = min(driver.mig_capacity(card.handle), MAX_PARTITIONS)
    except DriverCallError as error:
        return _Parent(card, walk_reason=_counted(error, card, errors))
    return _Parent(card, handles=_unambiguous(_partitions_of(driver, card, capacity)))


def _partitions_of(driver: Driver, card: Card, capacity: int) -> Iterable[tuple[str, object]]:
    """UUID and handle of each partition. That a free index answers with an error is no failure."""
    for index in range(capacity):
        try:
            handle = driver.mig_handle(card.handle, index)
            if handle is not None and (uuid := driver.uuid(handle)):
                yield uuid, handle
        except DriverCallError:
            continue


def _read_partition(
    driver: Driver, target: PartitionTarget, parent: _Parent, errors: ErrorCounts
) -> PartitionRow:
    row = PartitionRow(
        target.device_id, target.profile, target.placements, cores_reason=UNSUPPORTED
    )
    if parent.card is None or parent.mode_reason:
        return replace(row, memory_reason=parent.mode_reason)
    if not target.id:
        return replace(row, memory_reason=TRANSIENT_DRIVER_ERROR)
    if parent.walk_reason:
        return replace(row, memory_reason=parent.walk_reason)
    handle = parent.handles.get(target.id)
    try:
        # Asked again: the partition may have been made anew since the walk.
        if handle is None or driver.uuid(handle) != target.id:
            return replace(row, memory_reason=TRANSIENT_DRIVER_ERROR)
        total, used = _partition_memory(driver, handle)
    except DriverCallError as error:
        return replace(row, memory_reason=_counted(error, parent.card, errors))
    return replace(row, id=target.id, memory_total_bytes=total, memory_used_bytes=used)


def _partition_memory(driver: Driver, handle: object) -> Memory:
    try:
        return driver.memory_v2(handle)
    except DriverCallError:
        return driver.memory(handle)


def _counted(error: DriverCallError, card: Card, errors: ErrorCounts) -> str:
    reason = partition_reason(error.code)
    errors.add(card.index, error.call, reason)
    return reason
