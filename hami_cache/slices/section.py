"""The slice section: every pod container's share of every card, as one frozen value.

The names, the omissions and the order of its JSON are a contract (schema version 1, read by
GPUStack's worker); the JSON itself is in `sectionjson.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from hami_cache.absent import Absent

SCHEMA_VERSION = 1
KNOWN_SCHEMA_VERSIONS = range(1, 2)

MAX_USAGES = 4096
MAX_DEVICES = 256
MAX_PARTITIONS = 4096
MAX_JSON_BYTES = 4 * 1024 * 1024
"""What the reader on the other side takes; a section is made to fit."""

INVALID_DATA = "invalid_data"
BOUNDED = "bounded"
VERSION_SKEW = "version_skew"

NOT_MEASURED = Absent("not_measured")
"""A figure a record leaves out. Why, the device's reasons say, or one row without a number."""

Figure = int | Absent


@dataclass(frozen=True, slots=True)
class Usage:
    """One container's share of one card.

    Attributes:
        manufacturer: such as ``nvidia``.
        pod_uid: the pod.
        container: the container's name.
        device_id: the card's UUID.
        memory_used_mib: device memory in MiB; a zero was measured.
        cores_percent: the share of the whole card's compute, 0 to 100.
    """

    manufacturer: str
    pod_uid: str
    container: str
    device_id: str
    memory_used_mib: Figure = NOT_MEASURED
    cores_percent: Figure = NOT_MEASURED


@dataclass(frozen=True, slots=True)
class Device:
    """What the per-process pass saw on one card.

    Attributes:
        manufacturer: such as ``nvidia``.
        device_id: the card's UUID.
        memory_reason: why this pass gives no memory figure for the card, "" when it does.
        cores_reason: the same for cores.
        rows_returned: process rows the driver gave.
        rows_attributed: rows of a known container of an instance.
        rows_non_instance: rows of pods that back no instance; left out, harmless.
        rows_unreadable: rows /proc did not answer for.
        rows_ambiguous: rows that name no one known container.
        reads_truncated: of the two reads, how many ran out of room.
    """

    manufacturer: str
    device_id: str
    memory_reason: str = ""
    cores_reason: str = ""
    rows_returned: int = 0
    rows_attributed: int = 0
    rows_non_instance: int = 0
    rows_unreadable: int = 0
    rows_ambiguous: int = 0
    reads_truncated: int = 0


@dataclass(frozen=True, slots=True)
class Partition:
    """One container's hardware partition, read on the partition's own handle.

    Attributes:
        manufacturer: such as ``nvidia``.
        pod_uid: the pod.
        container: the container's name.
        device_id: the card it is cut from.
        id: its own UUID, "" when it could not be found.
        memory_total_mib: its size in MiB.
        memory_used_mib: used memory in MiB.
        cores_percent: its utilization in percent of itself.
        memory_reason: why memory is missing or not to be believed.
        cores_reason: why cores are missing.
    """

    manufacturer: str
    pod_uid: str
    container: str
    device_id: str
    id: str = ""
    memory_total_mib: Figure = NOT_MEASURED
    memory_used_mib: Figure = NOT_MEASURED
    cores_percent: Figure = NOT_MEASURED
    memory_reason: str = ""
    cores_reason: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One pass over one node. No section at all (None) means that the pass could not measure.

    Attributes:
        usages: shares, sorted.
        devices: the cards the pass covered, sorted.
        partitions: hardware partitions, sorted.
        truncated: something was left out to stay inside the bounds.
        schema_version: what the writer of the section knew.
    """

    usages: tuple[Usage, ...] = ()
    devices: tuple[Device, ...] = ()
    partitions: tuple[Partition, ...] = ()
    truncated: bool = False
    schema_version: int = SCHEMA_VERSION


def usage_key(record: Usage | Partition) -> str:
    """What shares and partitions are sorted by: manufacturer, device, pod, container."""
    return f"{record.manufacturer}\0{record.device_id}\0{record.pod_uid}\0{record.container}"


def device_key(record: Device | Usage) -> str:
    """What devices are sorted by, and a share's device known by: manufacturer, device."""
    return f"{record.manufacturer}\0{record.device_id}"


def to_mib(count: int) -> int:
    """Bytes to MiB, rounded down, but something is never published as nothing."""
    return count >> 20 or int(count > 0)
