"""A layout held against a file: its score, its evidence, and the slots that it explains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hami_cache.spec.probes import Answer, Evidence


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


class Hypothesis:
    """A layout with its answers and scores.

    Attributes:
        score: the sum of all answers, in log-odds.
        content_score: the same without the file's size, which a cut file has lost.
        good: the slots that fit the layout, with their scores.
        bad: the slots that do not.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.layout = evidence.layout
        self.evidence = evidence
        self.table = evidence.table
        self.answers = evidence.answers
        self.score = self._sum(self.answers)
        self.content_score = self._sum(a for a in self.answers if a.probe.kind != "size")
        self.good = {i: score for i, (fits, score) in evidence.fits.items() if fits is True}
        self.bad = frozenset(i for i, (fits, _) in evidence.fits.items() if fits is False)

    @staticmethod
    def _sum(answers: Iterable[Answer]) -> float:
        return sum(a.outcome * a.probe.weight for a in answers)

    def own_score(self, best: Hypothesis) -> tuple[float, float]:
        """How well this explains the slots that `best` does not, and then all the rest.

        Whoever re-opens a file writes neither its version nor, unless it grows, its size.
        """
        slots = sum(score for index, score in self.good.items() if not best.covers(self, index))
        rest = (a for a in self.answers if a.probe.kind not in ("version", "size"))
        return slots, self._sum(rest)

    def covers(self, other: Hypothesis, index: int) -> bool:
        """Whether a slot that fits this layout lies where the other's slot does."""
        return any(i in self.good for i in self.table.touched(other.table.span(index)))

    def stumbles(self, other: Hypothesis, index: int) -> bool:
        """Whether a slot that does not fit this layout lies where the other's slot does."""
        return any(i in self.bad for i in self.table.touched(other.table.span(index)))

    def answer(self, kind: str, field: str = "") -> Answer | None:
        """The answer of the probe of that kind on that field."""
        return next(
            (a for a in self.answers if a.probe.kind == kind and a.probe.field == field), None
        )

    def refuted(self, kind: str) -> bool:
        """Whether a probe of that kind found something else than predicted."""
        return any(a.outcome < 0 for a in self.answers if a.probe.kind == kind)

    def confirmed(self, kind: str) -> bool:
        """Whether a probe of that kind found what was predicted."""
        return any(a.outcome > 0 for a in self.answers if a.probe.kind == kind)

    def candidate(self) -> Candidate:
        """This hypothesis as the answer shows it."""
        items = tuple(
            EvidenceItem(a.probe.kind, a.outcome > 0, a.detail) for a in self.answers if a.outcome
        )
        return Candidate(self.layout.name, round(self.score, 2), items)
