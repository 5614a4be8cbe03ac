"""All HAMi meaning: from a region's raw values to a `Snapshot`.

Sources of the facts: HAMi-core's multiprocess_memory_limit.{h,c} at the commits each layout file
names, and the real writer's behaviour as docs/reading.md records it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hami_cache.absent import Absent, total
from hami_cache.model import Device, DeviceUtil, Figure, Header, MemoryUse, Slot, Snapshot
from hami_cache.read.region import Region
from hami_cache.read.seqlock import VERDICTS, RegionCopy
from hami_cache.read.signs import signs
from hami_cache.read.uuidtext import uuid_text
from hami_cache.spec.identify import Identification
from hami_cache.spec.layout import Layout

PARTS = ("context", "module", "data", "offset", "total")
SIGN = 1 << 63
WRAP = 1 << 64


def decode(
    layout: Layout,
    copy: RegionCopy[bytes] | RegionCopy[memoryview],
    identification: Identification,
    file_size: int,
    *,
    insisted: bool = False,
) -> Snapshot:
    """Decode a private copy of a region.

    Args:
        layout: what to read it with.
        copy: the bytes, with a verdict for every slot.
        identification: how sure that layout is; it becomes anomalies.
        file_size: of the whole file, in bytes.
        insisted: a person asked for this layout, so doubts about it do not make sums absent.
    """
    region = Region(layout, copy.data, copy.verdicts)
    header = _header(region)
    devices = min(header.device_num, len(header.uuids))
    slots = _slots(region, header, devices)
    doubted = identification.layout is layout and not insisted
    doubt = _doubt(identification, slots) if doubted else None
    found = tuple(_device(region, header, slots, index, doubt) for index in range(devices))
    return Snapshot(
        layout=layout.name,
        header=header,
        slots=slots,
        devices=found,
        anomalies=signs(layout, header, slots, found, identification, file_size, insisted=insisted),
        retries=copy.retries,
    )


def _doubt(found: Identification, slots: Sequence[Slot]) -> Absent | None:
    """Why no sum over the slots means anything, if so.

    Layouts that nothing tells apart are harmless as long as no slot is counted.
    """
    if found.verdict == "mixed":
        return Absent("layout_mixed", found.detail)
    if found.verdict == "ambiguous" and any(slot.counted for slot in slots):
        return Absent("layout_ambiguous", found.detail)
    return None


def _header(region: Region) -> Header:
    return Header(
        initialized_flag=region.required("initialized_flag"),
        major_version=region.number("major_version"),
        minor_version=region.number("minor_version"),
        sm_init_flag=region.number("sm_init_flag"),
        owner_pid=region.number("owner_pid"),
        sem=region.semaphore("sem"),
        sem_postinit=region.semaphore("sem_postinit"),
        device_num=region.required("device_num"),
        uuids=tuple(r.decode("utf-8", "backslashreplace") for r in region.raw_texts("uuids")),
        limit=region.numbers("limit"),
        sm_limit=region.numbers("sm_limit"),
        proc_num=region.required("proc_num"),
        utilization_switch=region.required("utilization_switch"),
        recent_kernel=region.required("recent_kernel"),
        priority=region.required("priority"),
        last_kernel_time=region.number("last_kernel_time"),
    )


def _slots(region: Region, header: Header, devices: int) -> tuple[Slot, ...]:
    below = min(max(header.proc_num, 0), len(region.slots))
    pids = region.slot_column("pid")
    listed = [int(i) for i in np.flatnonzero((pids != 0) | (np.arange(len(pids)) < below))]
    seqlock, monitorused = region.column("seqlock"), region.column("monitorused")
    used = [region.slot_column(f"used.{part}") for part in PARTS]
    found = [region.column(f"device_util.{part}") for part in ("dec", "enc", "sm")]
    util = [column for column in found if column is not None]
    hostpids, statuses = region.slot_column("hostpid"), region.slot_column("status")
    counted_pids: set[int] = set()
    slots = []
    for index in listed:
        pid, status = int(pids[index]), int(statuses[index])
        counted = index < below and status != 0 and not (pid != 0 and pid in counted_pids)
        if counted:
            counted_pids.add(pid)
        # Lists: taking thousands of single numbers out of numpy's arrays is what takes time.
        parts = [column[index].tolist() for column in used]
        loads = [column[index].tolist() for column in util]
        seen = [] if monitorused is None else monitorused[index].tolist()
        cover = _cover([*parts, *loads, seen], devices)
        slots.append(
            Slot(
                index=index,
                pid=pid,
                hostpid=int(hostpids[index]),
                status=status,
                seqlock=None if seqlock is None else int(seqlock[index]),
                used=tuple(map(MemoryUse, *(values[:cover] for values in parts))),
                monitorused=None if monitorused is None else tuple(seen[:cover]),
                device_util=tuple(map(DeviceUtil, *(values[:cover] for values in loads)))
                if len(loads) == len(found)
                else None,
                counted=counted,
                verdict=VERDICTS[region.verdicts[index]],
            )
        )
    return tuple(slots)


def _cover(rows: Sequence[Sequence[int]], devices: int) -> int:
    """How many devices a slot's lists must have: up to the last one with anything in it."""
    cover = devices
    for row in rows:
        while cover < len(row) and any(row[cover:]):
            cover += 1
    return cover


def _device(
    region: Region, header: Header, slots: Sequence[Slot], index: int, doubt: Absent | None
) -> Device:
    counted = [slot for slot in slots if slot.counted]
    figures: dict[str, Figure] = {}
    for part in PARTS:
        figures[part] = _sum(counted, index, part) if doubt is None else doubt
    return Device(
        index=index,
        uuid=uuid_text(region.raw_text("uuids", index), index),
        limit=header.limit[index],
        sm_limit=header.sm_limit[index],
        used=MemoryUse(**figures),
        sm_util=_sm_util(region, counted, index) if doubt is None else doubt,
    )


def _sum(counted: Sequence[Slot], device: int, part: str) -> Figure:
    """A part's sum over the counted slots; one term that cannot be trusted makes it absent.

    `total` is a single word and always publishable, unless it is below zero; a breakdown needs a
    stable read.
    """
    result = total(_term(slot, device, part) for slot in counted)
    if isinstance(result, int) and result >= SIGN:
        return Absent("sum_overflow", f"devices[{device}].used.{part} adds up to more than 2^63")
    return result


def _term(slot: Slot, device: int, part: str) -> Figure:
    use = slot.used[device]
    value: int = getattr(use, part)
    if value < SIGN and (part == "total" or slot.consistent):
        return value
    where = f"procs[{slot.index}].used[{device}].{part}"
    if value >= SIGN:
        return Absent("counter_underflow", f"{where} is {value - WRAP}")
    if slot.verdict == "unbalanced" and _balances(use):
        return value
    reason = {"torn": "torn", "stuck": "stuck_seqlock"}.get(slot.verdict, "sum_mismatch")
    return Absent(reason, where)


def _balances(use: MemoryUse) -> bool:
    parts = total([use.context, use.module, use.data])
    return isinstance(parts, int) and isinstance(use.total, int) and (parts - use.total) % WRAP == 0


def _sm_util(region: Region, counted: Sequence[Slot], device: int) -> Figure:
    if not region.layout.has("procs.device_util.sm"):
        return Absent("not_in_layout")
    return sum(slot.device_util[device].sm for slot in counted if slot.device_util is not None)
