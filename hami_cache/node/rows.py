"""What a card's driver answers, as plain rows: the seam between the driver's reader and the slices.

A number the driver did not give is None *in a row*, because one row has no reason of its own: the
reason belongs to the read of the whole card. It becomes an `Absent` or a left-out member where rows
turn into figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

MANUFACTURER_NVIDIA = "nvidia"
"""How the sections spell the one manufacturer read here."""

UNSUPPORTED = "unsupported"
PERMISSION = "permission"
TRUNCATED = "truncated"
TRANSIENT_DRIVER_ERROR = "transient_driver_error"
"""The four reasons for which a read of a card gives no figure; "" is a complete read."""


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One process on one card.

    Attributes:
        pid: as the driver sees it (the host's pid namespace).
        memory_bytes: device memory in bytes, None where the driver has no number.
        cores_percent: SM utilization of the newest sample in percent, None where it was not read.
    """

    pid: int
    memory_bytes: int | None
    cores_percent: int | None


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """Everything one pass read from one card.

    Attributes:
        id: the card's UUID.
        memory_reason: why memory could not be read, "" when the list is complete.
        cores_reason: why utilization could not be read, "" when the samples are complete.
        rows: the processes, in the driver's order.
    """

    id: str
    memory_reason: str = ""
    cores_reason: str = ""
    rows: tuple[ProcessRow, ...] = ()

    @property
    def reads_truncated(self) -> int:
        """How many of the two reads (memory, cores) ran out of room."""
        return (self.memory_reason == TRUNCATED) + (self.cores_reason == TRUNCATED)


@dataclass(frozen=True, slots=True)
class Placement:
    """A run of a card's memory slices: `length` of them from `start` on."""

    start: int
    length: int


@dataclass(frozen=True, slots=True)
class PartitionTarget:
    """A hardware partition to read, as the allocation recorded it.

    Attributes:
        device_id: the UUID of the card it is cut from.
        profile: such as ``1g.10gb``.
        placements: its runs, in the recorded order.
        id: its own (MIG) UUID, "" when none was recorded.
    """

    device_id: str
    profile: str
    placements: tuple[Placement, ...]
    id: str = ""


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """The answer for one `PartitionTarget`, whose first three members it repeats.

    Attributes:
        device_id: the parent card.
        profile: as asked.
        placements: as asked.
        id: the UUID it was read under, "" when it was not found.
        memory_total_bytes: its size in bytes, None when not read.
        memory_used_bytes: used bytes, None when not read.
        cores_percent: utilization in percent, None when not read.
        memory_reason: why memory is missing, "" when it was read.
        cores_reason: why cores are missing, "" when they were read.
    """

    device_id: str
    profile: str
    placements: tuple[Placement, ...]
    id: str = ""
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    cores_percent: int | None = None
    memory_reason: str = ""
    cores_reason: str = ""


class ProcessReader(Protocol):
    """Reads the processes of cards. Raises a `HamiCacheError` when no card can be asked at all."""

    def processes(self, device_ids: Sequence[str]) -> Iterable[DeviceRows]:
        """One `DeviceRows` per requested card; a card nobody answers for is reported unread."""
        ...


class PartitionReader(Protocol):
    """Reads hardware partitions. Raises a `HamiCacheError` when no card can be asked at all."""

    def partitions(self, targets: Sequence[PartitionTarget]) -> Iterable[PartitionRow]:
        """One `PartitionRow` per target."""
        ...
