"""One container's figures on one card: measured, possibly zero, or absent with a reason."""

from __future__ import annotations

from dataclasses import dataclass

from hami_cache.absent import Absent
from hami_cache.slices.section import (
    KNOWN_SCHEMA_VERSIONS,
    NOT_MEASURED,
    VERSION_SKEW,
    Device,
    Figure,
    Partition,
    Section,
    Usage,
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What can be said of one container on one card.

    Attributes:
        memory_used_mib: device memory in MiB.
        cores_percent: percent of the whole card's compute; for a partition, of the partition.
        id: the partition's own UUID, "" if it is none.
        memory_total_mib: the partition's size in MiB; absent for a share of a card.
    """

    memory_used_mib: Figure
    cores_percent: Figure
    id: str = ""
    memory_total_mib: Figure = NOT_MEASURED


def figures(
    section: Section | None, manufacturer: str, pod_uid: str, container: str, device_id: str
) -> Figures | Absent:
    """Answer for one container on one card.

    A partition's record answers alone. Otherwise the card must be listed: then the container's
    share is the answer, and without one a zero for each figure the card has no reason to lack,
    since a container without processes on a measured card used nothing of it.

    Returns:
        Absent (``no_section``, ``version_skew``, ``device_not_listed``) when the section cannot
        answer at all.
    """
    if section is None:
        return Absent("no_section", "the pass could not measure")
    if section.schema_version not in KNOWN_SCHEMA_VERSIONS:
        return Absent(VERSION_SKEW, f"schema version {section.schema_version}")
    key = (manufacturer, pod_uid, container, device_id)
    partition = next((p for p in section.partitions if _key(p) == key), None)
    if partition is not None:
        return _of_partition(partition)
    device = next(
        (d for d in section.devices if (d.manufacturer, d.device_id) == (manufacturer, device_id)),
        None,
    )
    if device is None:
        return Absent("device_not_listed", "the pass did not cover this card")
    usage = next((u for u in section.usages if _key(u) == key), None)
    return idle_figures(device) if usage is None else _of_usage(usage, device)


def idle_figures(device: Device) -> Figures:
    """What a listed card says of a container without a share of it: zero where it was measured."""
    return Figures(
        memory_used_mib=Absent(device.memory_reason) if device.memory_reason else 0,
        cores_percent=Absent(device.cores_reason) if device.cores_reason else 0,
    )


def _key(record: Usage | Partition) -> tuple[str, str, str, str]:
    return (record.manufacturer, record.pod_uid, record.container, record.device_id)


def _of_partition(partition: Partition) -> Figures:
    return Figures(
        memory_used_mib=_because(partition.memory_used_mib, partition.memory_reason),
        cores_percent=_because(partition.cores_percent, partition.cores_reason),
        id=partition.id,
        memory_total_mib=_because(partition.memory_total_mib, partition.memory_reason),
    )


def _of_usage(usage: Usage, device: Device) -> Figures:
    return Figures(
        memory_used_mib=_because(usage.memory_used_mib, device.memory_reason),
        cores_percent=_because(usage.cores_percent, device.cores_reason),
    )


def _because(figure: Figure, reason: str) -> Figure:
    """An absent figure with the reason that stands beside it, where there is one."""
    return Absent(reason) if isinstance(figure, Absent) and reason else figure
