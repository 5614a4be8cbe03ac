"""The vocabulary: what a cache says, as frozen values.

Sizes are bytes, exactly as they lie in the file (unsigned 64-bit); utilizations are percent of one
device. A value that a layout lacks is None; a figure that cannot be trusted is `Absent` with its
reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hami_cache.absent import Absent

Severity = Literal["info", "warning", "error"]
Consistency = Literal["stable", "torn", "stuck", "unprotected", "unbalanced", "unread"]
"""How a slot was read.

``stable``: under an even, unmoved seqlock, and every total is the sum of its parts. ``torn``: never
at rest while we waited. ``stuck``: its seqlock is odd and does not move. ``unprotected``: the
layout has no seqlock; the sums balance. ``unbalanced``: at rest, but a total is not the sum of its
parts. ``unread``: beyond proc_num, not protected by anything.
"""

AnomalyKind = Literal[
    "not_initialised", "layout_ambiguous", "layout_mixed", "layout_unverified", "size_mismatch",
    "truncated", "counter_underflow", "sum_mismatch", "over_limit", "limit_unset", "stale_slot",
    "exited_slot", "dead_process", "duplicate_pid", "hostpid_unknown", "stuck_seqlock", "lock_held",
    "lock_owner_dead", "device_num_out_of_range", "proc_num_out_of_range", "uuid_unreadable",
    "priority_out_of_range", "status_out_of_range", "monitorused_running_sum",
    "utilization_not_measured", "utilization_over_100", "last_kernel_in_future", "cache_ignored",
    "source_disagreement",
]  # fmt: skip
"""Names of anomalies: one vocabulary for inspect, doctor and the metrics."""

ANOMALY_KINDS: tuple[AnomalyKind, ...] = get_args(AnomalyKind)

Figure = int | Absent


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something about a cache that a person should know.

    `where` is a field path such as ``procs[3].used[0].total``, or "" for the whole file.
    """

    kind: AnomalyKind
    severity: Severity
    where: str
    detail: str


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes on one device: context, module and data make the total; `offset` stays unused."""

    context: Figure
    module: Figure
    data: Figure
    offset: Figure
    total: Figure


@dataclass(frozen=True, slots=True)
class DeviceUtil:
    """Percent of one device as the watcher last saw it; real writers fill only `sm`."""

    dec: int
    enc: int
    sm: int


@dataclass(frozen=True, slots=True)
class Semaphore:
    """A glibc ``sem_t``: its value, how many wait, and whether it is process-shared (128)."""

    value: int
    nwaiters: int
    private: int


@dataclass(frozen=True, slots=True)
class Header:
    """Everything of a region but its slots. What the layout lacks is None."""

    initialized_flag: int
    major_version: int | None
    minor_version: int | None
    sm_init_flag: int | None
    owner_pid: int | None
    sem: Semaphore | None
    sem_postinit: Semaphore | None
    device_num: int
    uuids: tuple[str, ...]
    limit: tuple[int, ...]
    sm_limit: tuple[int, ...]
    proc_num: int
    utilization_switch: int
    recent_kernel: int
    priority: int
    last_kernel_time: int | None


@dataclass(frozen=True, slots=True)
class Slot:
    """One process slot, raw as it lies.

    Attributes:
        used, monitorused, device_util: by device; they cover every device with a non-zero field and
            at least
            `device_num`. None where the layout has no such field.
        counted: it is part of the sums: below proc_num, status not 0, its pid not counted before.
        verdict: how it was read.
    """

    index: int
    pid: int
    hostpid: int
    status: int
    seqlock: int | None
    used: tuple[MemoryUse, ...]
    monitorused: tuple[int, ...] | None
    device_util: tuple[DeviceUtil, ...] | None
    counted: bool
    verdict: Consistency

    @property
    def consistent(self) -> bool:
        """Its fields belong together: a breakdown may be published."""
        return self.verdict in ("stable", "unprotected")


@dataclass(frozen=True, slots=True)
class Device:
    """One device of the container: `used` and `sm_util` are sums over the counted slots."""

    index: int
    uuid: str | Absent
    limit: int
    sm_limit: int
    used: MemoryUse
    sm_util: Figure


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A consistent reading of one cache at one moment.

    Attributes:
        layout: the name of the layout it was read with.
        slots: every slot with a pid, and every slot below proc_num.
        devices: `device_num` of them, at most as many as the layout has room for.
        retries: how often a slot or the table had to be read again.
    """

    layout: str
    header: Header
    slots: tuple[Slot, ...]
    devices: tuple[Device, ...]
    anomalies: tuple[Anomaly, ...]
    retries: int
