"""Which layout do these bytes have? Evidence is weighed, nothing is trusted.

Every layout large enough is a hypothesis. Its probes answer, weighted in log-odds; the sum is its
score, and the scores of all hypotheses give the confidence in the best one. What the best one
cannot explain but another can (its version, its size, a slot, counters at another place) makes the
file `mixed`: created by one libvgpu and re-opened by another. docs/identification.md walks through
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from hami_cache.spec.content import Buffer, SlotTable
from hami_cache.spec.layout import Layout
from hami_cache.spec.probes import Answer, Evidence

Verdict = Literal["identified", "ambiguous", "mixed", "not_initialised", "unknown"]

MIN_BYTES = 12
"""Magic and versions: what can be judged at all."""

TIE = 1.0
"""Two hypotheses whose scores differ by less (a factor e in odds) cannot be told apart."""

MIN_SCORE = 3.0
"""A best hypothesis that scores less explains too little to read by."""


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    """One piece of evidence for (`supports`) or against a layout; `kind` is the probe's."""

    kind: str
    supports: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A layout that was considered: its name, its score in log-odds and the evidence."""

    layout: str
    score: float
    evidence: tuple[EvidenceItem, ...]


@dataclass(frozen=True, slots=True)
class Identification:
    """The answer to "which layout is this?".

    Attributes:
        layout: the layout to read the file with; None when it must not be read.
        verdict: ``identified``; ``ambiguous`` (rivals that score alike); ``mixed`` (two layouts in
            one file);
            ``not_initialised`` (magic still 0); ``unknown``.
        confidence: 0..1, the share of `layout` (mixed: of its two layouts together) among all
            hypotheses.
        candidates: best first; a mixed file's two layouts lead.
        detail: the reason in one line.
        unverified: read with the newest layout of its major version, whose minor version is not
            known.
        parties: the names of a mixed file's two layouts, else empty.
    """

    layout: Layout | None
    verdict: Verdict
    confidence: float
    candidates: tuple[Candidate, ...]
    detail: str
    unverified: bool = False
    parties: tuple[str, ...] = ()


class _Hypothesis:
    """A layout with its answers and score."""

    def __init__(self, evidence: Evidence) -> None:
        self.layout = evidence.layout
        self.evidence = evidence
        self.answers = evidence.answers()
        self.score = sum(a.outcome * a.probe.weight for a in self.answers)
        self.good: dict[range, float] = {}
        self.bad: list[range] = []
        for index in evidence.slots:
            fits, slot_score = evidence.fit(index)
            span = self._span(evidence.table, index)
            if fits is True:
                self.good[span] = slot_score
            elif fits is False:
                self.bad.append(span)

    @staticmethod
    def _span(table: SlotTable, index: int) -> range:
        start = table.offset + index * table.stride
        return range(start, start + table.stride)

    def own_score(self, best: _Hypothesis) -> tuple[float, float]:
        """How well this explains the slots that `best` does not, then everything that is not the
        creator's.

        Whoever re-opens a file writes neither its version nor, unless it grows, its size.
        """
        slots = sum(score for span, score in self.good.items() if not _overlaps(span, best.good))
        rest = (a for a in self.answers if a.probe.kind not in ("version", "size"))
        return slots, sum(a.outcome * a.probe.weight for a in rest)

    def answer(self, kind: str, field: str = "") -> Answer | None:
        return next(
            (a for a in self.answers if a.probe.kind == kind and a.probe.field == field), None
        )

    def refuted(self, kind: str) -> bool:
        return any(a.outcome < 0 for a in self.answers if a.probe.kind == kind)

    def confirmed(self, kind: str) -> bool:
        return any(a.outcome > 0 for a in self.answers if a.probe.kind == kind)

    def candidate(self) -> Candidate:
        items = tuple(
            EvidenceItem(a.probe.kind, a.outcome > 0, a.detail) for a in self.answers if a.outcome
        )
        return Candidate(self.layout.name, round(self.score, 2), items)


def identify(
    data: Buffer, layouts: Mapping[str, Layout], file_size: int | None = None
) -> Identification:
    """Identify the layout of a cache file's content.

    Args:
        data: the content from its start; at least the largest region's length where the file has as
            much.
        layouts: the hypotheses, as `registry.layouts` gives them.
        file_size: the whole file's length in bytes, if `data` is only its beginning.

    Never raises for any bytes; takes time linear in their number, up to the largest layout.
    """
    size = len(data) if file_size is None else file_size
    refusal = _refusal(data, size, layouts)
    if refusal is not None:
        return refusal
    hypotheses = [
        _Hypothesis(Evidence(layout, _table(layout), data, size))
        for layout in layouts.values()
        if layout.sizeof <= len(data)
    ]
    hypotheses.sort(key=lambda h: (-h.score, h.layout.order))
    best = hypotheses[0]
    party = _second_writer(best, hypotheses[1:])
    if party is not None:
        return _mixed(best, party, hypotheses)
    if best.refuted("version"):
        return _unknown_version(best, hypotheses, layouts)
    if best.score < MIN_SCORE:
        return _unknown("no known layout explains the content", hypotheses)
    rivals = [h for h in hypotheses[1:] if best.score - h.score < TIE]
    confidence = _share([best], hypotheses)
    if rivals:
        names = " or ".join(h.layout.name for h in (best, *rivals))
        detail = f"{names}: nothing tells them apart"
        candidates = _candidates(hypotheses)
        return Identification(best.layout, "ambiguous", confidence, candidates, detail)
    detail = (
        f"{best.layout.name}: {sum(a.outcome > 0 for a in best.answers)} pieces of evidence agree"
    )
    return Identification(best.layout, "identified", confidence, _candidates(hypotheses), detail)


@lru_cache(maxsize=64)
def _table(layout: Layout) -> SlotTable:
    return SlotTable(layout)


def _refusal(data: Buffer, size: int, layouts: Mapping[str, Layout]) -> Identification | None:
    """What can be said before any layout is tried: too short, not initialised, not ours."""
    if size == 0:
        return Identification(None, "not_initialised", 1.0, (), "the file is still empty")
    if len(data) < MIN_BYTES:
        return _unknown(f"truncated: {size} bytes are too few for a header")
    magics = {
        (lo.identity.magic, lo.field(lo.identity.magic_field).offset) for lo in layouts.values()
    }
    found = {int.from_bytes(data[offset : offset + 4], "little") for _, offset in magics}
    swapped = {int.from_bytes(data[offset : offset + 4], "big") for _, offset in magics}
    known = {magic for magic, _ in magics}
    fitting = [lo for lo in layouts.values() if size in lo.file_sizes]
    largest = max(lo.file_sizes[-1] for lo in layouts.values())
    if found == {0} and fitting:
        return Identification(None, "not_initialised", 1.0, (), "the magic number is still 0")
    if not found & known:
        if swapped & known:
            return _unknown("the file is big-endian; only little-endian machines are supported")
        return _unknown(f"not a HAMi cache: the magic number is {min(found)}, not {min(known)}")
    if not fitting and size <= largest:
        return _unknown(f"truncated: {size} bytes is no layout's size ({_sizes(layouts.values())})")
    if min(lo.sizeof for lo in layouts.values()) > len(data):
        return _unknown(f"truncated: only {len(data)} of {size} bytes are there")
    return None


def _sizes(layouts: Iterable[Layout]) -> str:
    return ", ".join(str(size) for size in sorted({lo.file_sizes[-1] for lo in layouts}))


def _second_writer(best: _Hypothesis, others: Sequence[_Hypothesis]) -> _Hypothesis | None:
    """The layout that explains what `best` cannot, and has content of its own to show for it."""
    able = [
        other
        for other in others
        if not (best.refuted("version") and other.refuted("version"))
        and not (best.refuted("size") and other.refuted("size"))
        and _explains(best, other)
        and _present(other, best)
    ]
    return max(able, key=lambda h: h.own_score(best), default=None)


def _explains(best: _Hypothesis, other: _Hypothesis) -> bool:
    if any(best.refuted(kind) and other.confirmed(kind) for kind in ("version", "size")):
        return True
    if any(
        a.outcome < 0 and _confirmed_elsewhere(other, a)
        for a in best.answers
        if a.probe.kind == "text"
    ):
        return True
    if any(_overlaps(span, best.bad) and not _overlaps(span, best.good) for span in other.good):
        return True
    return _foreign_footer(best, other)


def _confirmed_elsewhere(other: _Hypothesis, answer: Answer) -> bool:
    twin = other.answer(answer.probe.kind, answer.probe.field)
    return twin is not None and twin.outcome > 0 and twin.offset != answer.offset


def _foreign_footer(best: _Hypothesis, other: _Hypothesis) -> bool:
    """Counters initialised at the other's place, where `best` has nothing but unused slots."""
    theirs = next((a for a in other.answers if a.probe.kind == "footer"), None)
    ours = next((a for a in best.answers if a.probe.kind == "footer"), None)
    if theirs is None or theirs.outcome <= 0 or theirs.offset is None:
        return False
    if ours is not None and ours.offset == theirs.offset:
        return False
    place = range(theirs.offset, theirs.offset + 16)
    table = best.evidence.table
    inside = table.offset <= theirs.offset < table.offset + table.stride * table.count
    return inside and not _overlaps(place, [*best.good, *best.bad])


def _present(other: _Hypothesis, best: _Hypothesis) -> bool:
    """Whether the other layout shows content of its own: its counters, its
    uuids where `best` has none, or slots that only it explains.

    A tenant who flips one header word must not turn a clean file into a mixed one.
    """
    own_text = best.refuted("text") and other.confirmed("text")
    own_slots = any(not _overlaps(span, best.good) for span in other.good)
    return own_text or own_slots or other.confirmed("footer")


def _overlaps(span: range, spans: Iterable[range]) -> bool:
    return any(span.start < other.stop and other.start < span.stop for other in spans)


def _mixed(
    best: _Hypothesis, party: _Hypothesis, hypotheses: Sequence[_Hypothesis]
) -> Identification:
    ordered = [best, party, *(h for h in hypotheses if h not in (best, party))]
    names = (best.layout.name, party.layout.name)
    return Identification(
        best.layout,
        "mixed",
        _share([best, party], hypotheses),
        _candidates(ordered),
        f"written by two libvgpu versions: {names[0]} and {names[1]}",
        parties=names,
    )


def _unknown_version(
    best: _Hypothesis, hypotheses: Sequence[_Hypothesis], layouts: Mapping[str, Layout]
) -> Identification:
    """A version no layout has: a newer minor is read with the newest layout of its major, if all
    agrees."""
    major = best.evidence.number("major_version")
    minor = best.evidence.number("minor_version")
    known = [lo.identity.version for lo in layouts.values() if lo.identity.version]
    minors = [v.minor for v in known if v.major == major]
    if not minors:
        majors = ", ".join(sorted({str(v.major) for v in known}))
        return _unknown(
            f"version {major}.{minor}: only major version {majors} is known", hypotheses
        )
    if minor <= max(minors):
        return _unknown(
            f"the header says {major}.{minor}, but the content does not agree", hypotheses
        )
    newest = max((v.minor, h.layout.order, h) for h in hypotheses
                 if (v := h.layout.identity.version) and v.major == major)[2]  # fmt: skip
    against = [
        a for a in newest.answers if a.outcome < 0 and a.probe.kind not in ("version", "size")
    ]
    if against or not (newest.confirmed("text") or newest.good):
        reason = against[0].detail if against else "nothing in it can be checked"
        detail = f"version {major}.{minor} is newer than any known, and {newest.layout.name} does"
        return _unknown(f"{detail} not explain it: {reason}", hypotheses)
    return Identification(
        newest.layout,
        "identified",
        min(_share([newest], hypotheses), 0.5),
        _candidates([newest, *(h for h in hypotheses if h is not newest)]),
        f"version {major}.{minor} is newer than any known; {newest.layout.name} explains it",
        unverified=True,
    )


def _unknown(detail: str, hypotheses: Sequence[_Hypothesis] = ()) -> Identification:
    return Identification(None, "unknown", 0.0, _candidates(hypotheses), detail)


def _candidates(hypotheses: Sequence[_Hypothesis]) -> tuple[Candidate, ...]:
    return tuple(h.candidate() for h in hypotheses)


def _share(chosen: Sequence[_Hypothesis], hypotheses: Sequence[_Hypothesis]) -> float:
    """The posterior share of some hypotheses, all being equally likely before the evidence."""
    top = max(h.score for h in hypotheses)
    weights = {id(h): math.exp(h.score - top) for h in hypotheses}
    return round(sum(weights[id(h)] for h in chosen) / sum(weights.values()), 4)
