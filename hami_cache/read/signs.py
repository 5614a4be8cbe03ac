"""What one snapshot gives away about itself: anomalies that need nothing but the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hami_cache.absent import Absent
from hami_cache.model import Anomaly, Device, Header, MemoryUse, Slot
from hami_cache.spec.identify import Identification
from hami_cache.spec.layout import Layout

SIGN = 1 << 63
WRAP = 1 << 64
STATUSES = (0, 1, 2)
MAX_PRIORITY = 1
"""HAMi documents two task priorities, 0 and 1, but takes any number that is not negative."""


def signs(
    layout: Layout,
    header: Header,
    slots: Sequence[Slot],
    devices: Sequence[Device],
    identification: Identification,
    file_size: int,
) -> tuple[Anomaly, ...]:
    """Every anomaly visible in one reading, in the order of the file."""
    return (
        *_layout_signs(layout, identification, file_size),
        *_header_signs(layout, header),
        *_device_signs(devices),
        *(sign for slot in slots for sign in _slot_signs(slot, header)),
        *_duplicates(slots),
    )


def _layout_signs(layout: Layout, found: Identification, file_size: int) -> Iterator[Anomaly]:
    if found.verdict == "mixed":
        yield Anomaly("layout_mixed", "error", "", found.detail)
    if found.verdict == "ambiguous":
        yield Anomaly("layout_ambiguous", "info", "", found.detail)
    if found.unverified:
        yield Anomaly("layout_unverified", "warning", "minor_version", found.detail)
    if file_size not in layout.file_sizes:
        detail = (
            f"the file has {file_size} bytes, {layout.name}'s writer leaves {layout.file_sizes[-1]}"
        )
        yield Anomaly("size_mismatch", "warning", "", detail)


def _header_signs(layout: Layout, header: Header) -> Iterator[Anomaly]:
    room = len(header.uuids)
    if header.device_num > room:
        detail = f"{header.device_num} devices, but there is room for {room}"
        yield Anomaly("device_num_out_of_range", "error", "device_num", detail)
    most = layout.field("procs").count
    if not 0 <= header.proc_num <= most:
        detail = f"{header.proc_num} processes, but there is room for {most}"
        yield Anomaly("proc_num_out_of_range", "error", "proc_num", detail)
    if header.priority < 0:
        detail = f"priority is {header.priority}; the feedback loop ignores this container"
        yield Anomaly("priority_out_of_range", "warning", "priority", detail)
    if header.owner_pid:
        detail = f"pid {header.owner_pid} held the lock when the file was read"
        yield Anomaly("lock_held", "info", "owner_pid", detail)
    elif header.sem is not None and header.sem.value == 0:
        yield Anomaly("lock_held", "info", "sem", "the semaphore is taken; no owner is named")
    if header.sem_postinit is not None and header.sem_postinit.value == 0:
        detail = "the post-init semaphore is taken or was never initialised; it names no owner"
        yield Anomaly("lock_held", "info", "sem_postinit", detail)


def _device_signs(devices: Sequence[Device]) -> Iterator[Anomaly]:
    for device in devices:
        where = f"uuids[{device.index}]"
        if isinstance(device.uuid, Absent):
            yield Anomaly("uuid_unreadable", "warning", where, device.uuid.detail)
        used = device.used.total
        if isinstance(used, Absent):
            continue
        place = f"devices[{device.index}].used.total"
        if device.limit == 0:
            if used:
                yield Anomaly(
                    "limit_unset", "info", f"limit[{device.index}]", f"0, with {used} bytes in use"
                )
        elif used > device.limit:
            detail = f"{used} bytes in use, {used - device.limit} over the limit of {device.limit}"
            yield Anomaly("over_limit", "warning", place, detail)
        if isinstance(device.sm_util, int) and device.sm_util > 100:
            detail = f"{device.sm_util} % is the sum over the processes"
            yield Anomaly(
                "utilization_over_100", "info", f"devices[{device.index}].sm_util", detail
            )


def _slot_signs(slot: Slot, header: Header) -> Iterator[Anomaly]:
    where = f"procs[{slot.index}]"
    if slot.index >= header.proc_num:
        yield Anomaly(
            "stale_slot", "info", where, f"pid {slot.pid} beyond proc_num {header.proc_num}"
        )
        return
    if slot.status not in STATUSES:
        yield Anomaly(
            "status_out_of_range", "warning", f"{where}.status", f"status is {slot.status}"
        )
    if slot.status == 0:
        held = sum(use.total for use in slot.used if isinstance(use.total, int))
        yield Anomaly("exited_slot", "info", where, f"exited; {held} bytes are not counted")
        return
    if slot.hostpid == 0:
        detail = f"the host pid of pid {slot.pid} was never detected"
        yield Anomaly("hostpid_unknown", "info", f"{where}.hostpid", detail)
    if slot.verdict == "stuck":
        detail = (
            f"odd ({slot.seqlock}) and not moving: its writer died inside an update, or lost count"
        )
        yield Anomaly("stuck_seqlock", "warning", f"{where}.seqlock", detail)
    for device, use in enumerate(slot.used):
        yield from _memory_signs(f"{where}.used[{device}]", use)


def _memory_signs(where: str, use: MemoryUse) -> Iterator[Anomaly]:
    values = {name: getattr(use, name) for name in ("context", "module", "data", "offset", "total")}
    for name, value in values.items():
        if value >= SIGN:
            detail = f"below zero: {value - WRAP} as a signed number"
            yield Anomaly("counter_underflow", "error", f"{where}.{name}", detail)
    parts = (values["context"] + values["module"] + values["data"]) % WRAP
    if parts != values["total"]:
        detail = f"total is {values['total']}, its parts add up to {parts}"
        yield Anomaly("sum_mismatch", "warning", f"{where}.total", detail)


def _duplicates(slots: Sequence[Slot]) -> Iterator[Anomaly]:
    first: dict[int, int] = {}
    for slot in slots:
        if slot.counted:
            first[slot.pid] = slot.index
        elif slot.status != 0 and slot.verdict != "unread" and slot.pid in first:
            detail = f"pid {slot.pid} stands in procs[{first[slot.pid]}] too and is counted once"
            yield Anomaly("duplicate_pid", "warning", f"procs[{slot.index}].pid", detail)
