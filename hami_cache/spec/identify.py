"""Which layout do these bytes have? Evidence is weighed, nothing is trusted.

Every layout is a hypothesis. Its probes answer, weighted in log-odds; the sum is its score, and the
scores of all hypotheses give the confidence in the best one. What the best one cannot explain but
another can (its version, its size, a slot, counters at another place) makes the file `mixed`:
created by one libvgpu and re-opened by another. docs/identification.md walks through it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hami_cache.spec.content import Buffer
from hami_cache.spec.foreign import sizes_on_32_bits
from hami_cache.spec.hypothesis import Candidate, Hypothesis
from hami_cache.spec.layout import Layout
from hami_cache.spec.probes import Content, Evidence
from hami_cache.spec.second_writer import second_writer

Verdict = Literal["identified", "ambiguous", "mixed", "not_initialised", "unknown"]

MIN_BYTES = 12
"""Magic and versions: what can be judged at all."""

TIE = 1.0
"""Two hypotheses whose scores differ by less (a factor e in odds) cannot be told apart."""

MIN_SCORE = 3.0
"""A best hypothesis that scores less explains too little to read by."""


@dataclass(frozen=True, slots=True)
class Identification:
    """The answer to "which layout is this?".

    Attributes:
        layout: the layout to read the file with; None when it must not be read.
        verdict: ``identified``; ``ambiguous`` (rivals that score alike); ``mixed`` (two layouts in
            one file); ``not_initialised`` (magic still 0); ``unknown``.
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
    content = Content(data, size)
    # A layout that needs more bytes than there are is tried too: a cut file may end where another
    # layout's file would.
    tried = [
        Hypothesis(Evidence(layout, content))
        for layout in layouts.values()
        if _has_magic(data, layout)
    ]
    tried.sort(key=lambda h: (-h.evidence.complete, -h.score, h.layout.order))
    return _weigh(tried, size, layouts)


def _weigh(tried: Sequence[Hypothesis], size: int, layouts: Mapping[str, Layout]) -> Identification:
    """The answer, from all hypotheses: best first, and those the file is too short for last."""
    whole = [h for h in tried if h.evidence.complete]
    cut = tried[len(whole) :]
    if not whole:
        return _cut_short(cut[0], size, tried)
    best = whole[0]
    longer = max(cut, key=lambda h: h.content_score, default=best)
    if longer.content_score - best.content_score >= TIE:
        return _cut_short(longer, size, tried)
    if (party := second_writer(best, whole[1:])) is not None:
        return _mixed(best, party, tried)
    if (party := second_writer(best, cut)) is not None:
        return _cut_short(party, size, tried)
    if best.refuted("version"):
        return _unknown_version(best, whole, layouts)
    if best.score < MIN_SCORE:
        return _unknown("no known layout explains the content", tried)
    rivals = [h.layout.name for h in whole[1:] if best.score - h.score < TIE]
    rivals += [
        f"{h.layout.name} cut short" for h in cut if best.content_score - h.content_score < TIE
    ]
    detail = f"{sum(a.outcome > 0 for a in best.answers)} pieces of evidence agree"
    if rivals:
        detail = f"{' or '.join([best.layout.name, *rivals])}: nothing tells them apart"
    return Identification(
        best.layout,
        "ambiguous" if rivals else "identified",
        _share([best], tried),
        _candidates(tried),
        detail if rivals else f"{best.layout.name}: {detail}",
    )


def _refusal(data: Buffer, size: int, layouts: Mapping[str, Layout]) -> Identification | None:
    """What can be said before any layout is tried: too short, not initialised, not ours."""
    if size == 0:
        return Identification(None, "not_initialised", 1.0, (), "the file is still empty")
    if len(data) < MIN_BYTES:
        return _unknown(f"truncated: {size} bytes are too few for a header")
    fitting = [lo for lo in layouts.values() if size in lo.file_sizes]
    largest = max(lo.file_sizes[-1] for lo in layouts.values())
    if fitting and not any(_magic(data, lo) for lo in fitting):
        return Identification(None, "not_initialised", 1.0, (), "the magic number is still 0")
    if not any(_has_magic(data, lo) for lo in layouts.values()):
        if any(_magic(data, lo, "big") == lo.identity.magic for lo in layouts.values()):
            return _unknown("the file is big-endian; only little-endian machines are supported")
        newest = max(layouts.values(), key=lambda lo: lo.order)
        found, wanted = _magic(data, newest), newest.identity.magic
        return _unknown(f"not a HAMi cache: the magic number is {found}, not {wanted}")
    if not fitting and any(size in sizes_on_32_bits(lo) for lo in layouts.values()):
        return _unknown(f"{size} bytes, as a 32-bit program writes; only 64-bit ones are supported")
    if not fitting and size <= largest:
        return _unknown(f"truncated: {size} bytes is no layout's size ({_sizes(layouts.values())})")
    if min(lo.sizeof for lo in layouts.values()) > len(data):
        return _unknown(f"truncated: only {len(data)} of {size} bytes are there")
    return None


def _magic(data: Buffer, layout: Layout, order: Literal["little", "big"] = "little") -> int:
    place = layout.element(layout.identity.magic_field)
    assert place is not None  # every layout file is checked for it
    return int.from_bytes(data[place.offset : place.offset + 4], order)


def _has_magic(data: Buffer, layout: Layout) -> bool:
    return _magic(data, layout) == layout.identity.magic


def _sizes(layouts: Iterable[Layout]) -> str:
    return ", ".join(str(size) for size in sorted({lo.file_sizes[-1] for lo in layouts}))


def _mixed(best: Hypothesis, party: Hypothesis, hypotheses: Sequence[Hypothesis]) -> Identification:
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
    best: Hypothesis, hypotheses: Sequence[Hypothesis], layouts: Mapping[str, Layout]
) -> Identification:
    """A version no layout has: a newer minor may be read with its major's newest layout."""
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
    ages = {
        (version.minor, h.layout.order): h
        for h in hypotheses
        if (version := h.layout.identity.version) and version.major == major
    }
    if not ages:
        size = best.evidence.content.file_size
        return _unknown(f"truncated: {size} bytes are too few for version {major}", hypotheses)
    newest = ages[max(ages)]
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


def _cut_short(longer: Hypothesis, size: int, hypotheses: Sequence[Hypothesis]) -> Identification:
    """The content is that of a layout which needs more bytes than the file has."""
    name, wanted = longer.layout.name, longer.layout.sizeof
    detail = f"truncated: {size} bytes, but they look like {name}, which has {wanted}"
    return _unknown(detail, hypotheses)


def _unknown(detail: str, hypotheses: Sequence[Hypothesis] = ()) -> Identification:
    return Identification(None, "unknown", 0.0, _candidates(hypotheses), detail)


def _candidates(hypotheses: Sequence[Hypothesis]) -> tuple[Candidate, ...]:
    return tuple(h.candidate() for h in hypotheses)


def _share(chosen: Sequence[Hypothesis], hypotheses: Sequence[Hypothesis]) -> float:
    """The posterior share of some hypotheses, all being equally likely before the evidence."""
    top = max(h.score for h in hypotheses)
    weights = {id(h): math.exp(h.score - top) for h in hypotheses}
    return round(sum(weights[id(h)] for h in chosen) / sum(weights.values()), 4)
