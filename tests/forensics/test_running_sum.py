"""The watcher that forgot to start again from 0 for every process (HAMi-core's pull request 34)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hami_cache.testing import CacheBuilder
from tests.forensics.helpers import built, detail, kinds, where
from tests.goldens import LAYOUTS

MIB = 1 << 20


def cache(layout: str, used: Sequence[int], seen: Sequence[int]) -> CacheBuilder:
    builder = CacheBuilder(layout).device(sm_limit=50)
    for pid, (counted, measured) in enumerate(zip(used, seen, strict=True), 1):
        builder.process(pid, memory=[counted], monitorused=[measured], sm_util=[1])
    return builder


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_that_add_up_are_told_for_all_but_the_first(layout: str, tmp_path: Path) -> None:
    # The pull request's own figures: two processes of 339738624 bytes each.
    own = 339_738_624
    found = built(tmp_path, cache(layout, [own, own], [own, 2 * own]))
    assert kinds(found) == {"monitorused_running_sum"}
    assert where(found, "monitorused_running_sum") == ["procs[1].monitorused[0]"]
    assert str(own) in detail(found, "monitorused_running_sum")


def test_nvmls_order_is_not_the_slots(tmp_path: Path) -> None:
    used = [500 * MIB, 900 * MIB, 200 * MIB]
    overhead = 250 * MIB  # of each context, which libvgpu does not count
    seen = [2 * overhead + 700 * MIB, 3 * overhead + 1600 * MIB, overhead + 200 * MIB]
    found = built(tmp_path, cache("v1", used, seen))
    assert where(found, "monitorused_running_sum") == [
        "procs[0].monitorused[0]",
        "procs[1].monitorused[0]",
    ]


@pytest.mark.parametrize(
    ("used", "seen"),
    [
        ([1000 * MIB], [1250 * MIB]),
        ([1000 * MIB, 2000 * MIB], [1250 * MIB, 2250 * MIB]),
        ([1000 * MIB, 1000 * MIB], [1250 * MIB, 1250 * MIB]),
        ([1000 * MIB, 1000 * MIB], [1000 * MIB, 1000 * MIB]),
        # Each with its own unhooked memory: no explanation fits better than the other.
        ([1000 * MIB, 2000 * MIB], [1250 * MIB, 4100 * MIB]),
        ([1000 * MIB, 2000 * MIB, 100 * MIB], [1400 * MIB, 2900 * MIB, 500 * MIB]),
        ([1000 * MIB, 2000 * MIB], [0, 0]),
        ([0, 1000 * MIB], [250 * MIB, 1250 * MIB]),
    ],
)
def test_own_values_are_not_accused(used: list[int], seen: list[int], tmp_path: Path) -> None:
    found = built(tmp_path, cache("v1", used, seen))
    assert "monitorused_running_sum" not in kinds(found)


def test_exited_slots_are_no_part_of_the_sum(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2").device(sm_limit=50)
    builder.process(1, memory=[100], monitorused=[100], sm_util=[1])
    builder.process(2, status=0, memory=[100], monitorused=[200], sm_util=[1])
    assert "monitorused_running_sum" not in kinds(built(tmp_path, builder))
