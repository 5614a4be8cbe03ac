"""One device's figures out of one native pass: those that cannot be trusted become `Absent`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hami_cache.absent import Absent, total
from hami_cache.model import Figure
from hami_cache.node.containers import TrackedCache
from hami_cache.read import seqlock
from hami_cache.read.seqlock import FIGURES

TOTAL, CONTEXT, MODULE, DATA, SM, LIMIT, SM_LIMIT = range(len(FIGURES))


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """One device of a container: bytes, and percent for `sm_limit` and the sum `sm_util`."""

    index: int
    uuid: str
    limit: int
    sm_limit: int
    total: Figure
    context: Figure
    module: Figure
    data: Figure
    sm_util: Figure


@dataclass(slots=True)
class Reading:
    """One cache of one container, as the native pass left it."""

    tracked: TrackedCache
    report: Mapping[str, int]
    rows: list[list[int]]
    flags: list[int]

    @property
    def counted(self) -> int:
        """Slots that are part of the sums."""
        return self.report["running"] + self.report["suspended"] + self.report["odd_status"]


def doubt_of(verdict: str, reading: Reading) -> Absent | None:
    """Why no figure of a cache can be trusted, if so."""
    if verdict == "mixed":
        return Absent("layout_mixed")
    if verdict == "ambiguous" and (reading.counted or reading.report["exited"]):
        return Absent("layout_ambiguous")
    return None


def unmeasured(reading: Reading, number: int) -> Absent | None:
    """Whether the utilization watcher evidently never wrote: then 0 means "not measured".

    The watcher fills sm_util and monitorused together and needs the host pid; with a core limit of
    0 or 100, or the switch off, the limiter that starts it does not run.
    """
    if not reading.counted:
        return None
    rows = reading.rows[:number]
    if reading.report["watched"] or not any(row[TOTAL] for row in rows):
        return None
    report = reading.report
    if report["hostpid_unknown"] == reading.counted:
        return Absent("utilization_not_measured", "no process knows its host pid")
    if report["utilization_switch"] == 0:
        return Absent("utilization_not_measured", "the utilization switch is off")
    if all(row[SM_LIMIT] == 0 or row[SM_LIMIT] >= 100 for row in rows):
        return Absent("utilization_not_measured", "no core limit is set, so no watcher runs")
    return None


def device_usage(
    index: int,
    uuid: str,
    row: Sequence[int],
    flags: int,
    doubt: Absent | None,
    unmeasured: Absent | None,
) -> DeviceUsage:
    """One device's figures; those that the pass flagged are absent."""
    whole = parts = sm = doubt
    if flags and doubt is None:
        if flags & seqlock.FLAG_UNDERFLOW:
            whole = parts = Absent("counter_underflow", f"used[{index}].total is below zero")
        elif flags & seqlock.FLAG_OVERFLOW:
            whole = parts = Absent("sum_overflow", f"used[{index}].total is absurd")
        elif flags & seqlock.FLAG_PART_UNDERFLOW:
            parts = Absent("counter_underflow", f"a part of used[{index}] is below zero")
        elif flags & seqlock.FLAG_STUCK:
            parts = Absent("stuck_seqlock", "a seqlock is odd and does not move")
        elif flags & seqlock.FLAG_UNSTABLE:
            parts = Absent("torn", "its writers never paused")
        elif flags & seqlock.FLAG_UNBALANCED:
            parts = Absent("sum_mismatch", f"used[{index}].total is not the sum of its parts")
        if flags & seqlock.FLAG_SM_OVERFLOW:
            sm = Absent("sum_overflow", f"device_util[{index}].sm_util is absurd")
    if sm is None:
        sm = unmeasured
    return DeviceUsage(
        index,
        uuid,
        row[LIMIT],
        row[SM_LIMIT],
        row[TOTAL] if whole is None else whole,
        row[CONTEXT] if parts is None else parts,
        row[MODULE] if parts is None else parts,
        row[DATA] if parts is None else parts,
        row[SM] if sm is None else sm,
    )


def merged(parts: Sequence[list[DeviceUsage]]) -> list[DeviceUsage]:
    """Sum the devices of several caches by uuid; the first cache gives numbers and limits."""
    if len(parts) == 1:
        return parts[0]
    sums: dict[str, DeviceUsage] = {}
    for device in (device for part in parts for device in part):
        before = sums.get(device.uuid)
        if before is None:
            sums[device.uuid] = device
            continue
        sums[device.uuid] = DeviceUsage(
            before.index,
            before.uuid,
            before.limit or device.limit,
            before.sm_limit or device.sm_limit,
            total((before.total, device.total)),
            total((before.context, device.context)),
            total((before.module, device.module)),
            total((before.data, device.data)),
            total((before.sm_util, device.sm_util)),
        )
    return list(sums.values())
