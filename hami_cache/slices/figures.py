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


class Answers:
    """What a section says of any container on any card.

    Args:
        section: None is a pass that could not measure.
    """

    def __init__(self, section: Section | None) -> None:
        self._silent = _silence(section)
        section = section or Section()
        # Of records with one key a reader takes the first.
        self._partitions = {_key(p): p for p in reversed(section.partitions)}
        self._devices = {(d.manufacturer, d.device_id): d for d in reversed(section.devices)}
        self._usages = {_key(u): u for u in reversed(section.usages)}

    def of(
        self, manufacturer: str, pod_uid: str, container: str, device_id: str
    ) -> Figures | Absent:
        """Answer for one container on one card.

        A partition's record answers alone. Otherwise the card must be listed: then the container's
        share is the answer, and without one a zero for each figure the card has no reason to lack,
        since a container without processes on a measured card used nothing of it.

        Returns:
            Absent (``no_section``, ``version_skew``, ``device_not_listed``) when the section cannot
            answer at all.
        """
        if self._silent is not None:
            return self._silent
        key = (manufacturer, pod_uid, container, device_id)
        if partition := self._partitions.get(key):
            return _of_partition(partition)
        device = self._devices.get((manufacturer, device_id))
        if device is None:
            return Absent("device_not_listed", "the pass did not cover this card")
        usage = self._usages.get(key)
        return idle_figures(device) if usage is None else _of_usage(usage, device)


def figures(
    section: Section | None, manufacturer: str, pod_uid: str, container: str, device_id: str
) -> Figures | Absent:
    """A single answer of `Answers.of`."""
    return Answers(section).of(manufacturer, pod_uid, container, device_id)


def idle_figures(device: Device) -> Figures:
    """What a listed card says of a container without a share of it: zero where it was measured."""
    return Figures(
        memory_used_mib=Absent(device.memory_reason) if device.memory_reason else 0,
        cores_percent=Absent(device.cores_reason) if device.cores_reason else 0,
    )


def _silence(section: Section | None) -> Absent | None:
    """Why a section answers nothing, None if it can."""
    if section is None:
        return Absent("no_section", "the pass could not measure")
    if section.schema_version not in KNOWN_SCHEMA_VERSIONS:
        return Absent(VERSION_SKEW, f"schema version {section.schema_version}")
    return None


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
