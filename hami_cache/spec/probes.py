"""Questions that a layout's file asks about the content of a cache, and how they are answered.

A probe compares what the bytes say with what the layout predicts. Its answer lies between -1
(refuted) and 1 (as predicted); 0 means that the bytes say nothing either way. Which probes a layout
has, on which fields and with what weight, is data (`checks.py` checks it); this module only knows
how to look.

Header kinds: ``size`` ``version`` ``range`` ``text`` ``semaphore`` ``footer``.
Slot kinds: ``slot_values`` ``slot_zero`` ``slot_counter`` ``slot_balance``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from hami_cache.spec.content import Buffer, SlotTable, Values, number_reader, piece
from hami_cache.spec.layout import Layout, Probe

WRAP = 1 << 64
SEMAPHORE_PRIVATE = (0, 128)
"""glibc keeps 0 or FUTEX_PRIVATE_FLAG in the third word; libvgpu's are process-shared: 128."""

FIT = 0.5
"""The share of its weight with which a slot's answers must agree for the slot to fit a layout."""

CARRYING = "slot_values"
"""The kind without whose support no slot fits: padding and sums look right at other places too."""


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


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes from its start, and the whole file's length in bytes."""

    data: Buffer
    file_size: int


HeaderQuestion = Callable[[Content], Answer]
SlotQuestion = Callable[[Values], tuple[int, int]]
"""How often a slot agrees and how often it disagrees."""


class Evidence:
    """A layout held against the bytes of one file.

    Args:
        layout: the hypothesis.
        content: the file.

    Attributes:
        answers: every probe's answer.
        fits: by slot, for those below proc_num and those past it that still name a pid: whether it
            looks as the layout predicts (None: it says nothing), and its score.
    """

    def __init__(self, layout: Layout, content: Content) -> None:
        self.layout = layout
        self.content = content
        asked = _questions(layout)
        self.table = asked.table
        tallies = [_Tally(probe) for probe, _ in asked.slots]
        self.fits: dict[int, tuple[bool | None, float]] = {}
        for index in self.table.inhabited(content.data, asked.proc_num(content.data)):
            if self.table.blank(content.data, index):
                self.fits[index] = None, 0.0
                continue
            values = self.table.slot(content.data, index)
            votes = [ask(values) for _, ask in asked.slots]
            for tally, vote in zip(tallies, votes, strict=True):
                tally.add(index, *vote)
            self.fits[index] = _fit([(t.probe, *v) for t, v in zip(tallies, votes, strict=True)])
        self.answers = [ask(content) for _, ask in asked.header]
        self.answers += [tally.answer() for tally in tallies]

    @property
    def complete(self) -> bool:
        """Whether the bytes cover the layout's whole region."""
        return len(self.content.data) >= self.layout.sizeof

    def number(self, path: str) -> int:
        """An integer field of the region."""
        return number_reader(self.layout.field(path))(self.content.data)


class _Tally:
    """One slot probe's votes over all slots."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self._good = self._bad = 0
        self._first: int | None = None

    def add(self, index: int, agree: int, disagree: int) -> None:
        self._good += agree
        self._bad += disagree
        if disagree and self._first is None:
            self._first = index

    def answer(self) -> Answer:
        asked = self._good + self._bad
        if not asked:
            return Answer(self.probe, 0, "no slot tells")
        name = _below_slot(self.probe)
        exception = "" if self._first is None else f", not in slot {self._first}"
        detail = f"{name}: {self._good} of {asked} fit{exception}"
        return Answer(self.probe, (self._good - self._bad) / asked, detail)


def _fit(votes: list[tuple[Probe, int, int]]) -> tuple[bool | None, float]:
    """Whether a slot looks as its layout predicts, and its score.

    The answers that the slot gives are weighed: a leftover in one padding word does not outweigh a
    status, a seqlock and sums that all lie where they should. None: it says nothing.
    """
    score = asked = 0.0
    carries = False
    for probe, agree, disagree in votes:
        if agree + disagree:
            asked += probe.weight
            score += probe.weight * (agree - disagree) / (agree + disagree)
            carries = carries or (agree > 0 and probe.kind == CARRYING)
    if score < FIT * asked:
        return False, score
    return (True if carries else None), score


class _Questions:
    """A layout's probes with every place they look at resolved."""

    def __init__(self, layout: Layout) -> None:
        probes = layout.identity.probes
        slot_probes = [probe for probe in probes if probe.kind in SLOT_KINDS]
        wanted = {path.removeprefix("procs.") for p in slot_probes for path in slot_paths(p)}
        self.table = SlotTable(layout, wanted)
        self.proc_num = number_reader(layout.field("proc_num"))
        self.header = [
            (p, HEADER_KINDS[p.kind](layout, p)) for p in probes if p.kind in HEADER_KINDS
        ]
        self.slots = [(p, SLOT_KINDS[p.kind](self.table, p)) for p in slot_probes]


@lru_cache(maxsize=64)
def _questions(layout: Layout) -> _Questions:
    return _Questions(layout)


def slot_paths(probe: Probe) -> list[str]:
    """The dotted paths, from the region on, of the fields that a slot probe reads."""
    if probe.kind == "slot_balance":
        return [f"{probe.field}.{name}" for name in (*probe.params["parts"], probe.params["total"])]
    if probe.kind == "slot_counter":
        return [probe.field, "procs.used.total"]
    return [probe.field]


def _below_slot(probe: Probe) -> str:
    return probe.field.removeprefix("procs.")


# ---- header probes ----


def _size(layout: Layout, probe: Probe) -> HeaderQuestion:
    sizes = layout.file_sizes

    def ask(content: Content) -> Answer:
        if content.file_size in sizes:
            return Answer(probe, 1, f"{content.file_size} bytes, as its writer leaves it")
        detail = f"{content.file_size} bytes, but its writer leaves {sizes[-1]}"
        return Answer(probe, -1, detail)

    return ask


def _version(layout: Layout, probe: Probe) -> HeaderQuestion:
    place = layout.field("major_version")
    major, minor = number_reader(place), number_reader(layout.field("minor_version"))
    version = layout.identity.version

    def ask(content: Content) -> Answer:
        found = major(content.data), minor(content.data)
        agrees = version is not None and found == (version.major, version.minor)
        detail = f"the header says {found[0]}.{found[1]}"
        return Answer(probe, 1 if agrees else -1, detail, place.offset)

    return ask


def _range(layout: Layout, probe: Probe) -> HeaderQuestion:
    place = layout.field(probe.field)
    number = number_reader(place)
    low, high = probe.params["min"], probe.params["max"]

    def ask(content: Content) -> Answer:
        value = number(content.data)
        outcome = 1 if low <= value <= high else -1
        return Answer(probe, outcome, f"{probe.field} is {value}", place.offset)

    return ask


def _text(layout: Layout, probe: Probe) -> HeaderQuestion:
    """Text up to the first NUL: a known prefix, then printable ASCII; an empty field says nothing.

    What lies behind the NUL does not count: whoever re-opens a file copies a shorter text over an
    older one.
    """
    place = layout.field(probe.field)
    size = place.ctype.size
    device_num = number_reader(layout.field("device_num"))
    prefixes = tuple(p.encode() for p in probe.params["prefixes"])

    def ask(content: Content) -> Answer:
        good = 0
        for index in range(min(device_num(content.data), place.count)):
            raw = piece(content.data, place.offset + index * size, size)
            text = raw.partition(b"\0")[0]
            if not text:
                continue
            if not (text.startswith(prefixes) and text.isascii() and text.decode().isprintable()):
                detail = f"{probe.field}[{index}] holds {raw[:16].hex()}..."
                return Answer(probe, -1, detail, place.offset)
            good += 1
        if not good:
            return Answer(probe, 0, f"{probe.field} is empty", place.offset)
        return Answer(probe, 1, f"{good} readable in {probe.field}", place.offset)

    return ask


def _semaphore(layout: Layout, probe: Probe) -> HeaderQuestion:
    place = layout.field(probe.field)

    def ask(content: Content) -> Answer:
        raw = piece(content.data, place.offset, place.size)
        value, waiters, private = struct.unpack_from("<IIi", raw)
        if not any(raw):
            return Answer(probe, 0, f"{probe.field} is all zero", place.offset)
        plausible = (
            value <= 1 and waiters <= 1024 and private in SEMAPHORE_PRIVATE and not any(raw[12:])
        )
        detail = f"{probe.field} holds {raw[:16].hex()}..."
        return Answer(probe, 1 if plausible else -1, detail, place.offset)

    return ask


def _footer(layout: Layout, probe: Probe) -> HeaderQuestion:
    """The counters behind the slots: whether somebody initialised them at this place."""
    place = layout.field(probe.field)
    names = (probe.field, probe.params["switch"], probe.params["kernel"])
    readers = [number_reader(layout.field(name)) for name in names]
    most = probe.params["max"]

    def ask(content: Content) -> Answer:
        count, switch, kernel = (read(content.data) for read in readers)
        detail = f"{names[0]} {count}, {names[1]} {switch}, {names[2]} {kernel}"
        if not 0 <= count <= most or switch not in (0, 1) or kernel < -1:
            return Answer(probe, -1, detail, place.offset)
        return Answer(probe, 1 if switch or kernel else 0, detail, place.offset)

    return ask


# ---- slot probes ----


def _slot_values(table: SlotTable, probe: Probe) -> SlotQuestion:
    pick = table.column(_below_slot(probe))
    expected = frozenset(probe.params["values"])

    def ask(values: Values) -> tuple[int, int]:
        value = pick(values)[0]
        if value not in expected:
            return 0, 1
        # Zero is where anything that was never written lies: it agrees with every layout.
        return (1, 0) if value else (0, 0)

    return ask


def _slot_zero(table: SlotTable, probe: Probe) -> SlotQuestion:
    pick = table.column(_below_slot(probe))
    return lambda values: (0, 1) if any(pick(values)) else (1, 0)


def _slot_counter(table: SlotTable, probe: Probe) -> SlotQuestion:
    """A seqlock: small, and moved (twice for each change) as soon as there is memory."""
    pick, totals = table.column(_below_slot(probe)), table.column("used.total")
    most = probe.params["max"]

    def ask(values: Values) -> tuple[int, int]:
        counter = pick(values)[0]
        if counter > most:
            return 0, 1
        if counter:
            return 1, 0
        return (0, 1) if any(totals(values)) else (0, 0)

    return ask


def _slot_balance(table: SlotTable, probe: Probe) -> SlotQuestion:
    """Every total == the sum of its parts, modulo 2^64, on every device that has memory."""
    name = _below_slot(probe)
    total_of = table.column(f"{name}.{probe.params['total']}")
    parts_of = [table.column(f"{name}.{part}") for part in probe.params["parts"]]

    def ask(values: Values) -> tuple[int, int]:
        good = bad = 0
        columns = [of(values) for of in parts_of]
        for total, parts in zip(total_of(values), zip(*columns, strict=True), strict=True):
            if total or any(parts):
                balanced = (sum(parts) - total) % WRAP == 0
                good += balanced
                bad += not balanced
        return good, bad

    return ask


HEADER_KINDS: Mapping[str, Callable[[Layout, Probe], HeaderQuestion]] = {
    "size": _size,
    "version": _version,
    "range": _range,
    "text": _text,
    "semaphore": _semaphore,
    "footer": _footer,
}
SLOT_KINDS: Mapping[str, Callable[[SlotTable, Probe], SlotQuestion]] = {
    "slot_values": _slot_values,
    "slot_zero": _slot_zero,
    "slot_counter": _slot_counter,
    "slot_balance": _slot_balance,
}
