"""What libvgpu's utilization watcher left behind, and whether it ever ran.

Every 120 ms the watcher zeroes `monitorused` and `device_util` of every slot and fills them from
NVML, by host pid. NVML always sees memory of a process that has a CUDA context, so a slot with
memory in use and all zeros there was not measured: the process was not idle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hami_cache.model import Anomaly, Header, Slot

SIGN = 1 << 63
SPREAD = 32 << 20
"""Bytes by which the overheads of two processes' contexts on one device may differ."""

RECENT_S = 60
"""Seconds for which a kernel launch says that a process should have been measured."""


def not_measured(slot: Slot) -> bool:
    """Whether the watcher evidently never filled this slot, though its process uses memory."""
    if slot.device_util is None or slot.monitorused is None:
        return False
    if any(slot.monitorused) or any(util.sm for util in slot.device_util):
        return False
    return any(isinstance(use.total, int) and use.total for use in slot.used)


def likely_cause(header: Header, slot: Slot) -> str | None:
    """Why a slot was not measured, where the header or the slot itself shows a reason."""
    if slot.hostpid == 0:
        return "its host pid is unknown, so that no sample of NVML matches it"
    if header.utilization_switch == 0:
        return "utilization_switch is 0"
    limits = header.sm_limit[: header.device_num]
    if limits and all(limit == 0 or limit >= 100 for limit in limits):
        shown = ", ".join(str(limit) for limit in limits)
        return f"sm_limit is {shown}: newer libvgpu only watch below 100 %"
    return None


def unmeasured(
    header: Header, slots: Sequence[Slot], now: float | None = None
) -> Iterator[Anomaly]:
    """Slots whose utilization of 0 % was never measured.

    Args:
        header: of the same snapshot.
        slots: counted ones are looked at.
        now: seconds since 1970; without it only slots that show a cause are named, since their
            process may just not have launched anything yet.
    """
    launched = header.last_kernel_time
    recent = launched is not None and now is not None and abs(now - launched) <= RECENT_S
    for slot in slots:
        if not slot.counted or not not_measured(slot):
            continue
        cause = likely_cause(header, slot)
        if cause is None and recent:
            cause = "a kernel was launched just now, so the watcher should have seen it"
        if cause is not None:
            detail = f"0 %, and no memory seen, of a process that uses memory: {cause}"
            where = f"procs[{slot.index}].device_util"
            yield Anomaly("utilization_not_measured", "info", where, detail)


@dataclass(frozen=True, slots=True)
class _Share:
    """What NVML is said to have seen of one process on one device, and what libvgpu counted."""

    slot: int
    seen: int
    counted: int


def running_sums(slots: Sequence[Slot], devices: int) -> Iterator[Anomaly]:
    """`monitorused` values that add up from process to process.

    Watchers before HAMi-core's pull request 34 forgot to start again from 0 for every process, so
    that each has its own memory plus that of all processes that NVML listed before it.
    """
    for device in range(devices):
        shares = sorted(_shares(slots, device), key=lambda share: share.seen)
        if not _adds_up(shares):
            continue
        for before, share in pairwise(shares):
            detail = (
                f"{share.seen} is a running sum over the processes of the container; this "
                f"process's own part is {share.seen - before.seen}"
            )
            where = f"procs[{share.slot}].monitorused[{device}]"
            yield Anomaly("monitorused_running_sum", "warning", where, detail)


def _shares(slots: Sequence[Slot], device: int) -> Iterator[_Share]:
    for slot in slots:
        if not slot.counted or slot.monitorused is None or device >= len(slot.used):
            continue
        seen, counted = slot.monitorused[device], slot.used[device].total
        if isinstance(counted, int) and seen > 0 and 0 < counted < SIGN:
            yield _Share(slot.index, seen, counted)


def _adds_up(shares: Sequence[_Share]) -> bool:
    """Whether a running sum explains the values far better than each process's own memory does.

    NVML sees what libvgpu counted plus a context, whose size is about the same for all processes on
    a device. So the overheads must agree under the right explanation, and differ under the wrong.
    """
    if len(shares) < 2:
        return False
    before = [0, *(share.seen for share in shares)]
    as_sum = [s.seen - b - s.counted for s, b in zip(shares, before, strict=False)]
    as_own = [s.seen - s.counted for s in shares]
    if min(as_sum) < 0:
        return False
    spread, rival = max(as_sum) - min(as_sum), max(as_own) - min(as_own)
    if spread == 0:
        return rival > 0
    return spread <= SPREAD and rival >= 8 * SPREAD
