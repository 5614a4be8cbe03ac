"""Sums are whole or absent."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.absent import Absent
from hami_cache.node.attribution import Attribution
from hami_cache.node.rows import DeviceRows, ProcessRow
from hami_cache.slices.aggregate import UNRESOLVED, DeviceAccumulator, aggregate
from hami_cache.slices.figures import Figures, figures
from hami_cache.slices.section import NOT_MEASURED, Section
from tests.slices.strategies import NVIDIA, Card, Row, cards, clean_cards, refused, rows_of

MINE = Attribution("attributed", "pod-a", "id-of-main")


@given(cards)
def test_no_figure_stands_beside_a_reason(card: Card) -> None:
    section = card.section()
    [device] = section.devices
    for usage in section.usages:
        assert not device.memory_reason or isinstance(usage.memory_used_mib, Absent)
        assert not device.cores_reason or isinstance(usage.cores_percent, Absent)


@given(cards, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(card: Card, chance: random.Random) -> None:
    shuffled = list(card.rows)
    chance.shuffle(shuffled)
    refusals = {row.attribution.reason or UNRESOLVED for row in card.rows if is_refused(row)}
    assert either_refusal(card.with_rows(*shuffled).section(), refusals) == either_refusal(
        card.section(), refusals
    )


@given(clean_cards, rows_of(refused), st.data())
def test_an_unattributable_row_only_removes_figures(
    card: Card, row: Row, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(card.rows)))
    poisoned = card.with_rows(*card.rows[:at], row, *card.rows[at:]).section()
    [device] = poisoned.devices
    assert poisoned.usages == ()
    assert device.memory_reason and device.cores_reason == device.memory_reason
    for pod_uid in ("pod-a", "pod-b", "nobody"):
        answer = figures(poisoned, NVIDIA, pod_uid, "main", "GPU-0")
        assert answer == Figures(Absent(device.memory_reason), Absent(device.cores_reason))


@given(clean_cards, st.lists(rows_of(st.just(Attribution("excluded"))), min_size=1, max_size=4))
def test_rows_of_other_pods_change_nothing_but_their_count(card: Card, others: list[Row]) -> None:
    alone = card.section()
    together = card.with_rows(*card.rows, *others).section()
    assert together.usages == alone.usages
    [before], [after] = alone.devices, together.devices
    assert after == replace(
        before,
        rows_returned=before.rows_returned + len(others),
        rows_non_instance=before.rows_non_instance + len(others),
    )


@given(cards)
def test_every_row_is_accounted_for(card: Card) -> None:
    [device] = card.section().devices
    assert device.rows_returned == len(card.rows)
    assert device.rows_returned == (
        device.rows_attributed
        + device.rows_non_instance
        + device.rows_unreadable
        + device.rows_ambiguous
    )


def test_nothing_gets_out_of_a_poisoned_accumulator_whenever_the_poison_came() -> None:
    accumulator = DeviceAccumulator(NVIDIA, DeviceRows("GPU-0"))
    accumulator.add("pod-a", "main", ProcessRow(1, 1 << 30, 5))
    accumulator.poison("exited")
    accumulator.add("pod-b", "main", ProcessRow(2, 1 << 30, 5))
    usages, device = accumulator.close()
    assert usages == []
    assert (device.memory_reason, device.cores_reason) == ("exited", "exited")
    assert device.rows_attributed == 2


def test_a_row_without_a_reason_poisons_too() -> None:
    """Upstream publishes here: its mark of "not poisoned" is the empty reason."""
    card = Card("", "", (Row(1 << 30, 5, MINE), Row(1 << 30, 5, Attribution("unattributed"))))
    section = card.section()
    assert section.usages == ()
    assert section.devices[0].memory_reason == UNRESOLVED
    named = card.with_rows(*card.rows, Row(1, 1, Attribution("unattributed", reason="exited")))
    assert named.section().devices[0].memory_reason == "exited"


def test_a_sum_past_64_bits_is_no_memory_figure() -> None:
    """Upstream wraps: 2^64 - 1 bytes and 2 MiB + 1 are published as 2 MiB."""
    card = Card("", "", (Row(2**64 - 1, 1, MINE), Row((2 << 20) + 1, 1, MINE)))
    section = card.section(capacity_mib=0)
    assert [(u.memory_used_mib, u.cores_percent) for u in section.usages] == [(NOT_MEASURED, 2)]
    assert section.devices[0].memory_reason == "invalid_data"


@pytest.mark.parametrize("groups", [[], [(NVIDIA, [])], [(NVIDIA, []), ("amd", [])]])
def test_no_card_read_is_no_section(groups: list[tuple[str, list[DeviceRows]]]) -> None:
    assert aggregate(groups, capacities={}, resolve=lambda pids: {}, name_of=lambda a: "") is None


def is_refused(row: Row) -> bool:
    return row.attribution.outcome == "unattributed"


def either_refusal(section: Section, refusals: set[str]) -> Section:
    """The section, whichever of several refusals it names first."""
    devices = tuple(
        replace(device, memory_reason="any", cores_reason="any")
        if device.memory_reason in refusals
        else device
        for device in section.devices
    )
    return replace(section, devices=devices)
