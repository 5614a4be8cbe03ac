"""One file's line in a scan: what it is, what it counts, what is wrong with it.

The same reading and the same judgement as `doctor --offline` and `inspect --offline`, in short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hami_cache.absent import Absent, total
from hami_cache.forensics.anomalies import Circumstances, judge, judge_recovered
from hami_cache.forensics.recover import recover
from hami_cache.model import Anomaly, Device, Figure
from hami_cache.read import jsonform, offline
from hami_cache.read.decode import decode
from hami_cache.read.look import refusal
from hami_cache.read.seqlock import STATUS_NOT_INITIALISED
from hami_cache.read.signs import refused
from hami_cache.spec.identify import Identification, identify
from hami_cache.spec.layout import Layout

SIGN = 1 << 63


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """One device of a file: bytes in use over its counted slots, and its limit in bytes."""

    uuid: str | Absent
    used: Figure
    limit: int


@dataclass(frozen=True, slots=True)
class Row:
    """One file, whatever its state.

    Attributes:
        file: its path or URL; of a member ``<archive>::<name>``.
        size: in bytes; None where it is not known.
        layout: what it was read with; None if it was not read.
        verdict: the identification's; ``unknown`` if it could not be opened.
        confidence: 0..1; None if it could not be opened.
        processes: how many slots are counted.
        devices: by index; None if it was not read, and so is `processes`.
        anomalies: how often there is each kind.
        error: why it could not be opened.
    """

    file: str
    size: int | None
    layout: str | None
    verdict: str
    confidence: float | None
    processes: int | None
    devices: tuple[DeviceUse, ...] | None
    anomalies: Mapping[str, int]
    error: str | None = None

    @property
    def used(self) -> Figure | None:
        """Bytes in use on all devices together; None if it was not read."""
        if self.devices is None:
            return None
        used = total(device.used for device in self.devices)
        if isinstance(used, int) and used >= SIGN:
            return Absent("sum_overflow", "the devices add up to more than 2^63")
        return used


def unopened(file: str, error: str, size: int | None = None) -> Row:
    """The row of a file of which nothing is known but why."""
    return Row(file, size, None, "unknown", None, None, None, {}, error)


def examine(
    file: str, data: memoryview, known: Mapping[str, Layout], circumstances: Circumstances
) -> Row:
    """The row of a file's content.

    Args:
        file: its name.
        data: all of it.
        known: the layouts that it may have.
        circumstances: the time at which it is judged.

    Never raises for any bytes.
    """
    found = identify(data, known)
    if found.layout is None:
        return _unread(file, len(data), found)
    layout = found.layout
    copy = offline.copy(layout, data)
    if copy.status == STATUS_NOT_INITIALISED:
        return _unread(file, len(data), found)
    snapshot = decode(layout, copy, found, len(data))
    if found.verdict == "mixed":
        parties = [known[name] for name in found.parties]
        recovery = recover(bytes(data), parties, found, len(data))
        findings, states = judge_recovered(recovery, found, layout)
        anomalies: Iterable[Anomaly] = (finding.anomaly for finding in findings)
        processes = len(states)
    else:
        anomalies = judge(snapshot, circumstances)
        processes = sum(slot.counted for slot in snapshot.slots)
    return Row(
        file,
        len(data),
        layout.name,
        found.verdict,
        found.confidence,
        processes,
        tuple(map(_device, snapshot.devices)),
        Counter(anomaly.kind for anomaly in anomalies),
    )


def _unread(file: str, size: int, found: Identification) -> Row:
    anomalies: dict[str, int] = {refused(refusal(found)).kind: 1}
    return Row(file, size, None, found.verdict, found.confidence, None, None, anomalies)


def _device(device: Device) -> DeviceUse:
    return DeviceUse(device.uuid, device.used.total, device.limit)


def document(row: Row) -> dict[str, Any]:
    """A row in the JSON of `scan --json`; an absent figure says why."""
    devices = None
    if row.devices is not None:
        devices = [
            {
                "index": index,
                "uuid": jsonform.figure(device.uuid),
                "used": jsonform.figure(device.used),
                "limit": device.limit,
            }
            for index, device in enumerate(row.devices)
        ]
    used = row.used
    return {
        "file": row.file,
        "size": row.size,
        "layout": row.layout,
        "verdict": row.verdict,
        "confidence": row.confidence,
        "processes": row.processes,
        "used": None if used is None else jsonform.figure(used),
        "devices": devices,
        "anomalies": dict(sorted(row.anomalies.items())),
        "error": row.error,
    }
