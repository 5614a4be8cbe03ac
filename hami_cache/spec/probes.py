"""Questions that a layout's file asks about the content of a cache, and how they are answered.

A probe compares what the bytes say with what the layout predicts. Its answer lies between -1
(refuted) and 1 (as predicted); 0 means that the bytes say nothing either way. Which probes a layout
has, on which fields and with what weight, is data; this module only knows how to look.

Header kinds: ``size`` ``version`` ``range`` ``text`` ``semaphore`` ``footer``.
Slot kinds: ``slot_values`` ``slot_zero`` ``slot_counter`` ``slot_balance``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hami_cache.spec.content import Buffer, SlotTable, read_number
from hami_cache.spec.layout import Layout, Probe

WRAP = 1 << 64
SEMAPHORE_PRIVATE = (0, 128)
"""glibc keeps 0 or FUTEX_PRIVATE_FLAG in a semaphore's third word; libvgpu's are process-shared:
128."""

FIT = 0.5
"""The share of its weight with which a slot's answers must agree for the slot to fit a layout."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one probe found.

    Attributes:
        probe: the question.
        outcome: from -1 (refuted) over 0 (silent) to 1 (as predicted).
        detail: the finding in words.
        offset: where it looked, for header probes; None for what lies all over the slots.
    """

    probe: Probe
    outcome: float
    detail: str
    offset: int | None = None


class Evidence:
    """A layout held against the bytes of one file.

    Args:
        layout: the hypothesis; the bytes must cover its region.
        data: the file's content, from its start.
        file_size: the whole file's length in bytes.
    """

    def __init__(self, layout: Layout, table: SlotTable, data: Buffer, file_size: int) -> None:
        self.layout = layout
        self.table = table
        self.data = data
        self.file_size = file_size
        self.slots = _inhabited(self)

    def number(self, path: str) -> int:
        """An integer field of the region."""
        return read_number(self.data, self.layout.field(path))

    def answers(self) -> list[Answer]:
        """Every probe's answer."""
        return [_HEADER_KINDS[p.kind](self, p) if p.kind in _HEADER_KINDS else self._slots(p)
                for p in self.layout.identity.probes]  # fmt: skip

    def _slots(self, probe: Probe) -> Answer:
        ask = _SLOT_KINDS[probe.kind]
        good = bad = 0
        first = ""
        for index, values in self.slots.items():
            agree, disagree = ask(self.table, probe, values)
            good += agree
            bad += disagree
            if disagree and not first:
                first = f", not in slot {index}"
        if not good + bad:
            return Answer(probe, 0, "no slot tells")
        name = probe.field.removeprefix("procs.")
        return Answer(
            probe, (good - bad) / (good + bad), f"{name}: {good} of {good + bad} fit{first}"
        )

    def fit(self, index: int) -> tuple[bool | None, float]:
        """Whether a slot looks as this layout predicts, and its score.

        The answers that the slot gives are weighed: a leftover in one padding word does not
        outweigh a status, a seqlock and sums that all lie where they should. None: it says nothing.
        """
        values = self.slots[index]
        score = asked = 0.0
        carries = False
        for probe in self.layout.identity.probes:
            ask = _SLOT_KINDS.get(probe.kind)
            if ask is None:
                continue
            agree, disagree = ask(self.table, probe, values)
            if agree + disagree:
                asked += probe.weight
                score += probe.weight * (agree - disagree) / (agree + disagree)
                carries = carries or (agree > 0 and probe.kind in ("slot_values", "slot_balance"))
        if score < FIT * asked:
            return False, score
        return (True if carries else None), score


def _inhabited(evidence: Evidence) -> dict[int, tuple[int, ...]]:
    """The slots worth asking: below proc_num, and leftovers past it that still name a pid."""
    table, data = evidence.table, evidence.data
    count = min(max(evidence.number("proc_num"), 0), table.count)
    pids = table.pids(data)
    wanted = [i for i, pid in enumerate(pids) if i < count or pid != 0]
    return {i: table.slot(data, i) for i in wanted}


def _size(evidence: Evidence, probe: Probe) -> Answer:
    sizes = evidence.layout.file_sizes
    if evidence.file_size in sizes:
        return Answer(probe, 1, f"{evidence.file_size} bytes, as its writer leaves it")
    return Answer(probe, -1, f"{evidence.file_size} bytes, but its writer leaves {sizes[-1]}")


def _version(evidence: Evidence, probe: Probe) -> Answer:
    version = evidence.layout.identity.version
    major, minor = evidence.number("major_version"), evidence.number("minor_version")
    offset = evidence.layout.field("major_version").offset
    agrees = version is not None and (major, minor) == (version.major, version.minor)
    return Answer(probe, 1 if agrees else -1, f"the header says {major}.{minor}", offset)


def _range(evidence: Evidence, probe: Probe) -> Answer:
    value = evidence.number(probe.field)
    inside = probe.params["min"] <= value <= probe.params["max"]
    offset = evidence.layout.field(probe.field).offset
    return Answer(probe, 1 if inside else -1, f"{probe.field} is {value}", offset)


def _text(evidence: Evidence, probe: Probe) -> Answer:
    """Text up to the first NUL: a known prefix, then printable ASCII; an empty field says nothing.

    What lies behind the NUL does not count: whoever re-opens a file copies a shorter text over an
    older one.
    """
    ref = evidence.layout.field(probe.field)
    prefixes = tuple(p.encode() for p in probe.params["prefixes"])
    good = 0
    for index in range(min(evidence.number("device_num"), ref.count)):
        raw = bytes(evidence.data[ref.offset + index * ref.ctype.size :][: ref.ctype.size])
        text = raw.partition(b"\0")[0]
        if not text:
            continue
        if not text.startswith(prefixes) or not (text.isascii() and text.decode().isprintable()):
            return Answer(
                probe, -1, f"{probe.field}[{index}] holds {raw[:16].hex()}...", ref.offset
            )
        good += 1
    if not good:
        return Answer(probe, 0, f"{probe.field} is empty", ref.offset)
    return Answer(probe, 1, f"{good} readable in {probe.field}", ref.offset)


def _semaphore(evidence: Evidence, probe: Probe) -> Answer:
    ref = evidence.layout.field(probe.field)
    raw = bytes(evidence.data[ref.offset : ref.offset + ref.size])
    value, waiters, private = struct.unpack_from("<IIi", raw)
    if not any(raw):
        return Answer(probe, 0, f"{probe.field} is all zero", ref.offset)
    plausible = (
        value <= 1 and waiters <= 1024 and private in SEMAPHORE_PRIVATE and not any(raw[12:])
    )
    return Answer(
        probe, 1 if plausible else -1, f"{probe.field} holds {raw[:16].hex()}...", ref.offset
    )


def _footer(evidence: Evidence, probe: Probe) -> Answer:
    """The counters behind the slots: whether somebody initialised them at this place."""
    ref = evidence.layout.field(probe.field)
    count = evidence.number(probe.field)
    switch = evidence.number(probe.params["switch"])
    kernel = evidence.number(probe.params["kernel"])
    detail = f"{probe.field} {count}, switch {switch}, recent kernel {kernel}"
    if not 0 <= count <= probe.params["max"] or switch not in (0, 1) or kernel < -1:
        return Answer(probe, -1, detail, ref.offset)
    return Answer(probe, 1 if switch or kernel else 0, detail, ref.offset)


def _slot_values(table: SlotTable, probe: Probe, values: tuple[int, ...]) -> tuple[int, int]:
    value = values[table.columns[_below_slot(probe)][0]]
    if value not in probe.params["values"]:
        return 0, 1
    # Zero is where anything that was never written lies: it agrees with every layout.
    return (1, 0) if value else (0, 0)


def _slot_zero(table: SlotTable, probe: Probe, values: tuple[int, ...]) -> tuple[int, int]:
    return (0, 1) if any(values[i] for i in table.columns[_below_slot(probe)]) else (1, 0)


def _slot_counter(table: SlotTable, probe: Probe, values: tuple[int, ...]) -> tuple[int, int]:
    """A seqlock: small, and moved (twice for each change) as soon as there is memory."""
    counter = values[table.columns[_below_slot(probe)][0]]
    if counter > probe.params["max"]:
        return 0, 1
    if counter:
        return 1, 0
    return (0, 1) if any(values[i] for i in table.columns["used.total"]) else (0, 0)


def _slot_balance(table: SlotTable, probe: Probe, values: tuple[int, ...]) -> tuple[int, int]:
    """The total is the sum of its parts, modulo 2^64, on every device that has memory."""
    name = _below_slot(probe)
    parts = [table.columns[f"{name}.{part}"] for part in probe.params["parts"]]
    good = bad = 0
    for position, place in enumerate(table.columns[f"{name}.{probe.params['total']}"]):
        total = values[place]
        terms = [values[column[position]] for column in parts]
        if total or any(terms):
            balanced = (sum(terms) - total) % WRAP == 0
            good += balanced
            bad += not balanced
    return good, bad


def _below_slot(probe: Probe) -> str:
    return probe.field.removeprefix("procs.")


_HEADER_KINDS: Mapping[str, Callable[[Evidence, Probe], Answer]] = {
    "size": _size,
    "version": _version,
    "range": _range,
    "text": _text,
    "semaphore": _semaphore,
    "footer": _footer,
}
_SLOT_KINDS: Mapping[str, Callable[[SlotTable, Probe, tuple[int, ...]], tuple[int, int]]] = {
    "slot_values": _slot_values,
    "slot_zero": _slot_zero,
    "slot_counter": _slot_counter,
    "slot_balance": _slot_balance,
}
KINDS: Mapping[str, Mapping[str, type]] = {
    "size": {},
    "version": {},
    "range": {"min": int, "max": int},
    "text": {"prefixes": list},
    "semaphore": {},
    "footer": {"max": int, "switch": str, "kernel": str},
    "slot_values": {"values": list},
    "slot_zero": {},
    "slot_counter": {"max": int},
    "slot_balance": {"parts": list, "total": str},
}
"""The parameters each kind takes beside ``field`` and ``weight``."""


def problem(probe: Probe) -> tuple[str, str] | None:
    """What is wrong with a probe's own keys: (key, message), or None."""
    wanted = KINDS[probe.kind]
    for key, kind in wanted.items():
        if not isinstance(probe.params.get(key), kind):
            return key, f"a {probe.kind} probe needs {key}, a {kind.__name__}"
    for key in probe.params:
        if key not in wanted:
            return key, f"is not a key of a {probe.kind} probe"
    if probe.kind.startswith("slot_") and not probe.field.startswith("procs."):
        return "field", "a slot probe looks at a field below procs"
    return None


def missing_field(layout: Layout, probe: Probe) -> str | None:
    """A path that the probe needs and the layout lacks, or None."""
    paths = [probe.field] if probe.field else []
    if probe.kind == "version":
        paths += ["major_version", "minor_version"]
    if probe.kind == "footer":
        paths += [probe.params["switch"], probe.params["kernel"]]
    if probe.kind == "slot_balance":
        paths += [
            f"{probe.field}.{name}" for name in (*probe.params["parts"], probe.params["total"])
        ]
    return next((path for path in paths if not layout.has(path)), None)
