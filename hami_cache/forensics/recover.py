"""A file that two libvgpu versions wrote, recovered slot by slot.

Each slot usually still balances (total == context + module + data) under exactly one of the two
layouts. Every slot is therefore read under every layout, the readings that the evidence supports
compete for the bytes, and the best ones win. What comes out is marked as recovered everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hami_cache.absent import Absent, total
from hami_cache.model import Figure, Header, MemoryUse, Slot, Snapshot
from hami_cache.read import offline
from hami_cache.read.decode import decode
from hami_cache.read.signs import STATUSES
from hami_cache.spec.identify import Identification
from hami_cache.spec.layout import Layout
from hami_cache.spec.probes import Content, Evidence

SIGN = 1 << 63
WRAP = 1 << 64
MAX_PID = 1 << 22
"""Linux gives no pid above this: what says more was written over."""

HEADER_KINDS = ("range", "text")
"""Probes that ask about the devices: the last libvgpu that opened the file wrote those."""


@dataclass(frozen=True, slots=True)
class RecoveredSlot:
    """One slot under the layout that explains it.

    Attributes:
        layout: that layout.
        slot: as it reads there; `counted` if it is below that layout's proc_num, has not exited and
            its pid was not counted before, in whichever layout.
        offset: where it begins in the file, in bytes.
        alone: no other layout explains these bytes as well. It does not matter for a slot without
            memory, which may read the same under both.
    """

    layout: Layout
    slot: Slot
    offset: int
    alone: bool


@dataclass(frozen=True, slots=True)
class LostSlot:
    """A slot that one layout counts and that nothing explains any more: it was written over."""

    layout: str
    index: int
    offset: int


@dataclass(frozen=True, slots=True)
class RecoveredDevice:
    """One device: its uuid, and the bytes in use over all recovered counted slots."""

    index: int
    uuid: str | Absent
    used: Figure


@dataclass(frozen=True, slots=True)
class Recovery:
    """What could be recovered of a mixed file.

    Attributes:
        slots: in the order of the file.
        lost: counted slots that were written over: what they held is not in any sum.
        headers: by layout name, as they read there.
    """

    slots: tuple[RecoveredSlot, ...]
    lost: tuple[LostSlot, ...]
    devices: tuple[RecoveredDevice, ...]
    headers: dict[str, Header]


@dataclass(frozen=True, slots=True)
class _Claim:
    """A slot of one layout that the evidence supports, with its score in log-odds."""

    layout: Layout
    slot: Slot
    span: range
    score: float

    def conflicts(self, other: _Claim) -> bool:
        """Whether only one of the two can be right.

        Tables that begin at different places overlap at the edges of their slots: what still
        balances there is intact on both sides.
        """
        shared = min(self.span.stop, other.span.stop) - max(self.span.start, other.span.start)
        smaller = min(len(self.span), len(other.span))
        return self.span.start == other.span.start or shared * 2 > smaller


def recover(data: bytes, parties: Sequence[Layout], found: Identification, size: int) -> Recovery:
    """Recover a mixed file.

    Args:
        data: the whole file.
        parties: the layouts of the two writers.
        found: the identification that says so.
        size: of the file, in bytes.
    """
    fitting = [layout for layout in parties if layout.sizeof <= len(data)]
    if not fitting:
        return Recovery((), (), (), {})  # it was cut since it was identified
    evidence = {lo.name: Evidence(lo, Content(data, size)) for lo in fitting}
    snapshots = {lo.name: decode(lo, offline.copy(lo, data), found, size) for lo in fitting}
    claims = [c for lo in fitting for c in _claims(lo, evidence[lo.name], snapshots[lo.name])]
    chosen = _best(claims)
    slots = _recount(chosen, claims)
    lost = tuple(
        x for lo in fitting for x in _lost(lo, evidence[lo.name], snapshots[lo.name], chosen)
    )
    headline = max(fitting, key=lambda lo: _header_score(evidence[lo.name]))
    devices = tuple(
        RecoveredDevice(device.index, device.uuid, _used(slots, lost, device.index))
        for device in snapshots[headline.name].devices
    )
    headers = {name: snapshot.header for name, snapshot in snapshots.items()}
    return Recovery(slots, lost, devices, headers)


def balances(use: MemoryUse) -> bool | None:
    """Whether a total is the sum of its parts, modulo 2^64; None where all are 0."""
    values = (use.context, use.module, use.data, use.total)
    context, module, data, whole = (v if isinstance(v, int) else 0 for v in values)
    if not any((context, module, data, whole)):
        return None
    return (context + module + data - whole) % WRAP == 0


def _claims(layout: Layout, evidence: Evidence, snapshot: Snapshot) -> Iterator[_Claim]:
    for slot in snapshot.slots:
        fits, score = evidence.fits.get(slot.index, (None, 0.0))
        verdicts = [balances(use) for use in slot.used]
        # The other writer's bytes may lie in this slot's padding: sums that balance outweigh that.
        good, bad = verdicts.count(True), verdicts.count(False)
        sound = slot.status in STATUSES and good > 0 and good >= bad
        if 0 <= slot.pid <= MAX_PID and (fits or sound):
            yield _Claim(layout, slot, _span(layout, slot.index), score)


def _span(layout: Layout, index: int) -> range:
    ref = layout.field(f"procs[{index}]")
    return range(ref.offset, ref.offset + ref.size)


def _best(claims: Sequence[_Claim]) -> list[_Claim]:
    """The best-supported claims that do not conflict, in the order of the file."""
    chosen: list[_Claim] = []
    for claim in sorted(claims, key=lambda c: -c.score):
        if not any(claim.conflicts(other) for other in chosen):
            chosen.append(claim)
    return sorted(chosen, key=lambda c: c.span.start)


def _recount(chosen: Sequence[_Claim], claims: Sequence[_Claim]) -> tuple[RecoveredSlot, ...]:
    counted_pids: set[int] = set()
    slots = []
    for claim in chosen:
        slot = claim.slot
        below = slot.verdict != "unread" and slot.status != 0
        counted = below and not (slot.pid != 0 and slot.pid in counted_pids)
        if counted:
            counted_pids.add(slot.pid)
        rivals = [c for c in claims if c.layout is not claim.layout and c.conflicts(claim)]
        alone = all(rival.score < claim.score for rival in rivals)
        recounted = replace(slot, counted=counted)
        slots.append(RecoveredSlot(claim.layout, recounted, claim.span.start, alone))
    return tuple(slots)


def _lost(
    layout: Layout, evidence: Evidence, snapshot: Snapshot, chosen: Sequence[_Claim]
) -> Iterator[LostSlot]:
    """Slots below proc_num that say something, at places where no layout's reading won."""
    starts = {claim.span.start for claim in chosen}
    for slot in snapshot.slots:
        start = _span(layout, slot.index).start
        if slot.verdict == "unread" or start in starts:
            continue
        if slot.pid == 0 and slot.status == 0:
            continue  # a clean exit, which nobody counts
        if evidence.fits.get(slot.index, (None, 0.0))[0] is not None:
            yield LostSlot(layout.name, slot.index, start)


def _header_score(evidence: Evidence) -> float:
    answers = (a for a in evidence.answers if a.probe.kind in HEADER_KINDS)
    return sum(a.outcome * a.probe.weight for a in answers)


def _used(slots: Sequence[RecoveredSlot], lost: Sequence[LostSlot], device: int) -> Figure:
    """A device's sum; absent where a counted slot's part of it is not known."""
    if lost:
        return Absent("layout_mixed", f"{len(lost)} counted slots were written over")
    return total(_term(found.slot, device) for found in slots if found.slot.counted)


def _term(slot: Slot, device: int) -> Figure:
    if device >= len(slot.used):
        return 0
    use = slot.used[device]
    where = f"procs[{slot.index}].used[{device}].total"
    if isinstance(use.total, int) and use.total >= SIGN:
        return Absent("counter_underflow", where)
    return Absent("sum_mismatch", where) if balances(use) is False else use.total
