"""What is wrong with a container's caches, by name: the anomalies of the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hami_cache.absent import Absent
from hami_cache.model import AnomalyKind
from hami_cache.node.containers import Container
from hami_cache.node.devicefigures import DeviceUsage, Reading
from hami_cache.read import seqlock
from hami_cache.spec.table import offset_table

FUTURE_SECONDS = 60
"""How far ahead of our clock a last kernel may lie before it is called an anomaly."""

_NAMED: Mapping[str, AnomalyKind] = {
    "counter_underflow": "counter_underflow",
    "sum_overflow": "counter_underflow",
    "stuck_seqlock": "stuck_seqlock",
    "sum_mismatch": "sum_mismatch",
    "utilization_not_measured": "utilization_not_measured",
}


def choose(read: Sequence[Reading], anomalies: dict[AnomalyKind, str]) -> list[Reading]:
    """Which of a container's caches count: those with processes; failing that, the newest one.

    A container that was given its card again gets a second file; the first stays behind, without
    processes.
    """
    if len(read) <= 1:
        return list(read)
    live = [r for r in read if r.counted]
    chosen = live or [max(read, key=lambda r: r.tracked.mtime_ns)]
    ignored = [r.tracked.name for r in read if r not in chosen]
    if ignored:
        anomalies["cache_ignored"] = f"no process uses {', '.join(ignored)}"
    return chosen


def state_of(
    container: Container,
    mine: Sequence[Reading],
    chosen: Sequence[Reading],
    anomalies: dict[AnomalyKind, str],
) -> str:
    """The container's state, and an anomaly for what its files have against them."""
    for tracked in container.caches.values():
        if tracked.state == "not_initialised":
            anomalies.setdefault("not_initialised", f"{tracked.name}: {tracked.detail}")
        elif tracked.state == "unknown_layout":
            kind: AnomalyKind = (
                "truncated" if tracked.detail.startswith("truncated") else "layout_unverified"
            )
            anomalies.setdefault(kind, f"{tracked.name}: {tracked.detail}")
        elif tracked.state in ("irregular", "unreadable"):
            anomalies.setdefault("cache_ignored", f"{tracked.name}: {tracked.detail}")
    if container.crowded:
        anomalies.setdefault("cache_ignored", "the directory holds more files than are read")
    if chosen:
        mixed = any(
            r.tracked.cache and r.tracked.cache.identification.verdict == "mixed" for r in chosen
        )
        return "mixed" if mixed else "ready"
    if container.problem:
        return "unreadable"
    if mine:
        names = {
            seqlock.STATUS_GONE: "gone",
            seqlock.STATUS_NOT_INITIALISED: "not_initialised",
            seqlock.STATUS_UNSETTLED: "unsettled",
        }
        return names[mine[0].report["status"]]
    return next((t.state for t in container.caches.values()), "empty")


def note_cache(reading: Reading, anomalies: dict[AnomalyKind, str], now: float) -> None:
    """Name what is wrong with one cache as a whole."""
    cache = reading.tracked.cache
    assert cache is not None
    found, report = cache.identification, reading.report
    table = offset_table(cache.layout)
    room, slots = table.device_count, table.slot_count
    signs: tuple[tuple[bool, AnomalyKind, str], ...] = (
        (found.verdict == "mixed", "layout_mixed", found.detail),
        (found.verdict == "ambiguous", "layout_ambiguous", found.detail),
        (found.unverified, "layout_unverified", found.detail),
        (
            cache.file_size not in cache.layout.file_sizes,
            "size_mismatch",
            f"{cache.file_size} bytes, its writer leaves {cache.layout.file_sizes[-1]}",
        ),
        (
            report["device_num"] > room,
            "device_num_out_of_range",
            f"device_num {report['device_num']}",
        ),
        (
            not 0 <= report["proc_num"] <= slots,
            "proc_num_out_of_range",
            f"proc_num {report['proc_num']}",
        ),
        (report["priority"] < 0, "priority_out_of_range", f"priority {report['priority']}"),
        (report["odd_status"] > 0, "status_out_of_range", f"{report['odd_status']} slots"),
        (
            report["duplicates"] > 0,
            "duplicate_pid",
            f"{report['duplicates']} slots name a pid again",
        ),
        (
            report["hostpid_unknown"] > 0,
            "hostpid_unknown",
            f"{report['hostpid_unknown']} processes",
        ),
        (report["skipped"] > 0, "dead_process", f"{report['skipped']} slots of dead processes"),
        (
            report["last_kernel_time"] > now + FUTURE_SECONDS,
            "last_kernel_in_future",
            f"last_kernel_time {report['last_kernel_time']}",
        ),
    )
    for present, kind, detail in signs:
        if present:
            anomalies.setdefault(kind, detail)


def note_device(device: DeviceUsage, anomalies: dict[AnomalyKind, str]) -> None:
    """Name what is wrong with one device's figures."""
    for value in (device.total, device.context, device.sm_util):
        if isinstance(value, Absent) and value.reason in _NAMED:
            anomalies.setdefault(_NAMED[value.reason], value.detail)
    if isinstance(device.total, Absent):
        return
    if device.limit == 0:
        if device.total:
            anomalies.setdefault("limit_unset", f"device {device.index} has no limit and is in use")
    elif device.total > device.limit:
        over = device.total - device.limit
        anomalies.setdefault("over_limit", f"device {device.index} is {over} bytes over its limit")
    if isinstance(device.sm_util, int) and device.sm_util > 100:
        anomalies.setdefault("utilization_over_100", f"device {device.index}: {device.sm_util} %")
