"""A layout as the flat table of offsets that readers of raw memory need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hami_cache.spec.layout import Layout


@dataclass(frozen=True, slots=True)
class OffsetTable:
    """Byte offsets, named as `hc_layout` in native/abi.h; -1 where the layout has no such field.

    `used_size` and `util_size` are the steps from one device's record to the next; `total` ..
    `offset` count from the start of a memory record, `pid` .. `used`, `sm` and `monitorused` from
    the start of a slot, the rest from the start of the region.
    """

    region_size: int
    magic_offset: int
    magic: int
    device_num: int
    limit: int
    sm_limit: int
    proc_num: int
    utilization_switch: int
    recent_kernel: int
    priority: int
    last_kernel_time: int
    owner_pid: int
    procs: int
    slot_size: int
    slot_count: int
    device_count: int
    pid: int
    hostpid: int
    status: int
    seqlock: int
    used: int
    used_size: int
    total: int
    context: int
    module: int
    data: int
    offset: int
    sm: int
    util_size: int
    monitorused: int


@lru_cache(maxsize=64)
def offset_table(layout: Layout) -> OffsetTable:
    """The offset table of a layout."""

    def at(path: str, base: int = 0) -> int:
        element = layout.element(path)
        return -1 if element is None else element.offset - base

    def size(path: str) -> int:
        element = layout.element(path)
        return 0 if element is None else element.ctype.size

    def count(path: str) -> int:
        element = layout.element(path)
        return 0 if element is None else element.count

    procs = at("procs")
    used = at("procs.used")
    return OffsetTable(
        region_size=layout.sizeof,
        magic_offset=at(layout.identity.magic_field),
        magic=layout.identity.magic,
        device_num=at("device_num"),
        limit=at("limit"),
        sm_limit=at("sm_limit"),
        proc_num=at("proc_num"),
        utilization_switch=at("utilization_switch"),
        recent_kernel=at("recent_kernel"),
        priority=at("priority"),
        last_kernel_time=at("last_kernel_time"),
        owner_pid=at("owner_pid"),
        procs=procs,
        slot_size=size("procs"),
        slot_count=count("procs"),
        device_count=count("uuids"),
        pid=at("procs.pid", procs),
        hostpid=at("procs.hostpid", procs),
        status=at("procs.status", procs),
        seqlock=at("procs.seqlock", procs),
        used=used - procs,
        used_size=size("procs.used"),
        total=at("procs.used.total", used),
        context=at("procs.used.context", used),
        module=at("procs.used.module", used),
        data=at("procs.used.data", used),
        offset=at("procs.used.offset", used),
        sm=at("procs.device_util.sm", procs),
        util_size=size("procs.device_util"),
        monitorused=at("procs.monitorused", procs),
    )
