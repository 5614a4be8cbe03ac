"""What one snapshot gives away about itself: anomalies that need nothing but the cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hami_cache.absent import Absent
from hami_cache.errors import NotInitialisedError, UnknownLayoutError
from hami_cache.model import Anomaly, AnomalyKind, Device, Header, MemoryUse, Semaphore, Slot
from hami_cache.read.locks import lock
from hami_cache.read.watcher import running_sums, unmeasured
from hami_cache.spec.identify import Identification
from hami_cache.spec.layout import Layout

SIGN = 1 << 63
WRAP = 1 << 64
STATUSES = (0, 1, 2)
HIGHEST_PRIORITY = (1 << 16) - 1
"""HAMi takes any number that is not negative, but its monitor keeps a list as long as that."""

PARTS = ("context", "module", "data", "offset", "total")


def signs(
    layout: Layout,
    header: Header,
    slots: Sequence[Slot],
    devices: Sequence[Device],
    identification: Identification,
    file_size: int,
    *,
    insisted: bool = False,
) -> tuple[Anomaly, ...]:
    """Every anomaly visible in one reading, in the order of the file.

    Of a file that two libvgpu versions wrote only that is said, unless a person `insisted` on this
    layout: under one layout, the other one's bytes look like damage. `forensics.recover` reads such
    a file slot by slot.
    """
    if identification.verdict == "mixed" and not insisted:
        return (Anomaly("layout_mixed", "error", "", identification.detail),)
    return (
        *_layout_signs(layout, identification, file_size),
        *header_signs(layout, header),
        *_device_signs(devices),
        *slots_signs(header, slots, len(devices)),
    )


def refused(error: NotInitialisedError | UnknownLayoutError) -> Anomaly:
    """The anomaly of a file that cannot be read: not initialised yet, cut off, or not known."""
    if isinstance(error, NotInitialisedError):
        return Anomaly("not_initialised", "info", "", error.message)
    cut = error.message.startswith("truncated")
    kind: AnomalyKind = "truncated" if cut else "layout_unverified"
    return Anomaly(kind, "error", "", error.message)


def slots_signs(header: Header, slots: Sequence[Slot], devices: int) -> tuple[Anomaly, ...]:
    """Anomalies of the process slots, under the header whose proc_num and limits govern them.

    Args:
        header: of the same reading.
        slots: as `decode` lists them.
        devices: how many of them the container has.
    """
    counted = {slot.pid: slot for slot in slots if slot.counted}
    return (
        *(sign for slot in slots for sign in _slot_signs(slot, header, counted)),
        *running_sums(slots, devices),
        *unmeasured(header, slots),
    )


def header_signs(layout: Layout, header: Header) -> Iterator[Anomaly]:
    """Anomalies of everything before and behind the slots."""
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
    if header.priority > HIGHEST_PRIORITY:
        detail = f"priority is {header.priority}; HAMi's monitor would keep a list as long as that"
        yield Anomaly("priority_out_of_range", "warning", "priority", detail)
    if header.owner_pid:
        detail = f"pid {header.owner_pid} of the container held the lock when the file was read"
        yield Anomaly("lock_held", "info", "owner_pid", detail)
    else:
        yield from _lock_signs("sem", header.sem)
    yield from _lock_signs("sem_postinit", header.sem_postinit)


def _lock_signs(where: str, semaphore: Semaphore | None) -> Iterator[Anomaly]:
    if semaphore is None:
        return
    found = lock(semaphore)
    if found.state == "held":
        detail = f"taken, {found.waiters} waiting ({found.libc}); nothing names the owner"
        yield Anomaly("lock_held", "info", where, detail)
    elif found.state == "blank":
        detail = "all zero: taken, or never initialised; nothing names an owner"
        yield Anomaly("lock_held", "info", where, detail)


def _layout_signs(layout: Layout, found: Identification, file_size: int) -> Iterator[Anomaly]:
    if found.verdict == "mixed":
        yield Anomaly("layout_mixed", "error", "", found.detail)
    if found.verdict == "ambiguous":
        yield Anomaly("layout_ambiguous", "info", "", found.detail)
    if found.unverified:
        yield Anomaly("layout_unverified", "warning", "minor_version", found.detail)
    if file_size not in layout.file_sizes:
        usual = layout.file_sizes[-1]
        detail = f"the file has {file_size} bytes, {layout.name}'s writer leaves {usual}"
        yield Anomaly("size_mismatch", "warning", "", detail)


def _device_signs(devices: Sequence[Device]) -> Iterator[Anomaly]:
    for device in devices:
        index = device.index
        if isinstance(device.uuid, Absent):
            yield Anomaly("uuid_unreadable", "warning", f"uuids[{index}]", device.uuid.detail)
        used = device.used.total
        if isinstance(used, Absent):
            continue
        if used and device.limit == 0:
            detail = f"0, with {used} bytes in use"
            yield Anomaly("limit_unset", "info", f"limit[{index}]", detail)
        elif used > device.limit:
            detail = f"{used} bytes in use, {used - device.limit} over the limit of {device.limit}"
            yield Anomaly("over_limit", "warning", f"devices[{index}].used.total", detail)
        if isinstance(device.sm_util, int) and device.sm_util > 100:
            detail = f"{device.sm_util} % is the sum over the processes"
            yield Anomaly("utilization_over_100", "info", f"devices[{index}].sm_util", detail)


def _slot_signs(slot: Slot, header: Header, counted: Mapping[int, Slot]) -> Iterator[Anomaly]:
    where = f"procs[{slot.index}]"
    if slot.index >= header.proc_num:
        yield _stale(slot, header.proc_num, counted.get(slot.pid))
        return
    if slot.status not in STATUSES:
        detail = f"status is {slot.status}"
        yield Anomaly("status_out_of_range", "warning", f"{where}.status", detail)
    if slot.status == 0:
        detail = f"exited; {_held(slot)} are not counted"
        yield Anomaly("exited_slot", "info", where, detail)
        return
    # Before the devices are known nobody has looked for a host pid yet.
    if slot.hostpid == 0 and header.device_num:
        detail = f"the host pid of pid {slot.pid} was not detected"
        yield Anomaly("hostpid_unknown", "info", f"{where}.hostpid", detail)
    if slot.verdict == "stuck":
        detail = f"odd ({slot.seqlock}) and not moving: a writer died inside an update, or lost one"
        yield Anomaly("stuck_seqlock", "warning", f"{where}.seqlock", detail)
    for device, use in enumerate(slot.used):
        yield from _memory_signs(f"{where}.used[{device}]", use)
    first = counted.get(slot.pid)
    if not slot.counted and first is not None:
        detail = f"pid {slot.pid} stands in procs[{first.index}] too and is counted once"
        yield Anomaly("duplicate_pid", "warning", f"{where}.pid", detail)


def _stale(slot: Slot, proc_num: int, first: Slot | None) -> Anomaly:
    """A slot past proc_num: what a process left, or where one goes on writing unseen."""
    where = f"procs[{slot.index}]"
    detail = f"pid {slot.pid} beyond proc_num {proc_num}; {_held(slot)} are not counted"
    if first is None or first.used == slot.used:
        return Anomaly("stale_slot", "info", where, detail)
    detail += (
        f"; they differ from procs[{first.index}] of the same pid, whose process may go on"
        " writing here, unseen"
    )
    return Anomaly("stale_slot", "warning", where, detail)


def _held(slot: Slot) -> str:
    totals = [use.total for use in slot.used]
    return f"{sum(t for t in totals if isinstance(t, int) and t < SIGN)} bytes"


def _memory_signs(where: str, use: MemoryUse) -> Iterator[Anomaly]:
    values = {name: getattr(use, name) for name in PARTS}
    for name, value in values.items():
        if value >= SIGN:
            detail = f"below zero: {value - WRAP} as a signed number"
            yield Anomaly("counter_underflow", "error", f"{where}.{name}", detail)
    parts = (values["context"] + values["module"] + values["data"]) % WRAP
    if parts != values["total"]:
        detail = f"total is {values['total']}, its parts add up to {parts}"
        yield Anomaly("sum_mismatch", "warning", f"{where}.total", detail)
