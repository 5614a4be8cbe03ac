"""Two layouts in one file: created by one libvgpu and opened again by a newer (or older) one.

The header and the size stay the first writer's, or say one thing each; what the second one wrote
lies where its own layout puts it. So a second writer is a layout that explains what the best one
cannot, and that has content of its own to show.
"""

from __future__ import annotations

from collections.abc import Sequence

from hami_cache.spec.hypothesis import Hypothesis
from hami_cache.spec.probes import Answer

FOOTER_BYTES = 16
"""proc_num and the three counters behind it."""


def second_writer(best: Hypothesis, others: Sequence[Hypothesis]) -> Hypothesis | None:
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


def _explains(best: Hypothesis, other: Hypothesis) -> bool:
    if any(best.refuted(kind) and other.confirmed(kind) for kind in ("version", "size")):
        return True
    if any(
        a.outcome < 0 and _confirmed_elsewhere(other, a)
        for a in best.answers
        if a.probe.kind == "text"
    ):
        return True
    if any(best.stumbles(other, i) and not best.covers(other, i) for i in other.good):
        return True
    return _foreign_footer(best, other)


def _confirmed_elsewhere(other: Hypothesis, answer: Answer) -> bool:
    twin = other.answer(answer.probe.kind, answer.probe.field)
    return twin is not None and twin.outcome > 0 and twin.offset != answer.offset


def _foreign_footer(best: Hypothesis, other: Hypothesis) -> bool:
    """Counters initialised at the other's place, in unused slots of `best`."""
    theirs = next((a for a in other.answers if a.probe.kind == "footer"), None)
    ours = next((a for a in best.answers if a.probe.kind == "footer"), None)
    if theirs is None or theirs.outcome <= 0 or theirs.offset is None:
        return False
    if ours is not None and ours.offset == theirs.offset:
        return False
    slots = best.table.touched(range(theirs.offset, theirs.offset + FOOTER_BYTES))
    return bool(slots) and not any(i in best.good or i in best.bad for i in slots)


def _present(other: Hypothesis, best: Hypothesis) -> bool:
    """Whether the other shows content of its own: counters, uuids, or slots only it explains.

    A tenant who flips one header word must not turn a clean file into a mixed one.
    """
    own_text = best.refuted("text") and other.confirmed("text")
    own_slots = any(not best.covers(other, index) for index in other.good)
    return own_text or own_slots or other.confirmed("footer")
