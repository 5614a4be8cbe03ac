"""The figures that no source could give, and why each of them could not."""

from __future__ import annotations

from typing import get_args

from hami_cache.absent import Absent
from hami_cache.node.rows import MANUFACTURER_NVIDIA
from hami_cache.slices.collect import Collected
from hami_cache.slices.figures import Answers, Figures
from hami_cache.slices.findings import FigureName, Finding
from hami_cache.slices.merge import share_of
from hami_cache.slices.section import Figure, Usage


def gaps(collected: Collected) -> list[Finding]:
    """What is missing of the shares that a cache or an allocation names.

    A finding's `driver` and `cache` are the two absences. A number in `cache` was withheld, because
    no such card can hold it or because the card was left out for the bounds.
    """
    published, driver = Answers(collected.section), Answers(collected.driver)
    found = []
    for charge in sorted(collected.charges, key=lambda c: (c.pod_uid, c.container, c.device_id)):
        key = (MANUFACTURER_NVIDIA, charge.pod_uid, charge.container, charge.device_id)
        answer, measured, cached = published.of(*key), driver.of(*key), share_of(charge)
        for name in get_args(FigureName):
            if isinstance(figure_of(answer, name), Absent):
                sources = (figure_of(measured, name), figure_of(cached, name))
                found.append(Finding("not_measured", *key[1:], name, *sources))
    return found


def figure_of(answer: Figures | Usage | Absent, name: FigureName) -> Figure:
    """One of the two figures of an answer; an answer that is none has neither."""
    if isinstance(answer, Absent):
        return answer
    return answer.memory_used_mib if name == "memory" else answer.cores_percent
