"""What the policies hold, and what the cards then report."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hami_cache.absent import Absent
from hami_cache.allocwatch.claims import Claim, Holder
from hami_cache.allocwatch.reconcile import (
    Device,
    FractionPolicy,
    Measured,
    MeasuredPolicy,
    Memory,
    Reading,
    reconcile,
)
from hami_cache.errors import ConfigError

CARDS = [Device(0, "GPU-a", 1100, 100), Device(1, "GPU-b", 1000, 0)]
MAIN = Holder("work", "p", "main")
SIDE = Holder("work", "p", "side")


Cards = Mapping[Holder, Mapping[str, int | Absent] | Absent]


def readings(
    claims: list[Claim],
    cards: Cards,
    granted: frozenset[str] = frozenset(),
) -> list[Reading]:
    measured = {
        holder: figures if isinstance(figures, Absent) else Measured(figures, granted)
        for holder, figures in cards.items()
    }
    policy = MeasuredPolicy(lambda: measured, FractionPolicy(0.25))
    return reconcile(CARDS, claims, policy)


def test_a_sum_past_64_bits_stops_at_the_aperture() -> None:
    huge = Device(0, "GPU-a", 2**63, 0)
    claims = [Claim("GPU-a", MAIN)] * 2
    assert reconcile([huge], claims, FractionPolicy(1.0)) == [Reading(0, Memory(2**63, 0))]


@pytest.mark.parametrize("fraction", [-0.1, float("nan"), float("inf")])
def test_what_is_no_fraction(fraction: float) -> None:
    with pytest.raises(ConfigError):
        FractionPolicy(fraction)


def test_measured_memory_takes_the_place_of_the_fraction() -> None:
    claims = [Claim("GPU-a", MAIN), Claim("GPU-a", SIDE), Claim("GPU-b", SIDE)]
    assert readings(claims, {MAIN: {"GPU-a": 7}, SIDE: {"GPU-a": 30, "GPU-b": 0}}) == [
        Reading(0, Memory(37, 963)),
        Reading(1, Memory(0, 1000)),
    ]


def test_a_container_without_a_cache_holds_the_fraction() -> None:
    claims = [Claim("GPU-a", MAIN), Claim("GPU-a", SIDE)]
    assert readings(claims, {MAIN: {"GPU-a": 7}})[0] == Reading(0, Memory(257, 743))


def test_replicas_of_one_card_count_once_when_measured_and_each_when_not() -> None:
    claims = [Claim("GPU-a", MAIN)] * 2
    assert readings(claims, {MAIN: {"GPU-a": 7}})[0] == Reading(0, Memory(7, 993))
    assert readings(claims, {})[0] == Reading(0, Memory(500, 500))


def test_an_absent_figure_makes_its_card_absent_and_no_other() -> None:
    claims = [Claim("GPU-a", MAIN), Claim("GPU-a", SIDE), Claim("GPU-b", SIDE)]
    measured: Cards = {MAIN: {"GPU-a": Absent("torn")}, SIDE: {"GPU-a": 1, "GPU-b": 2}}
    assert readings(claims, measured) == [Reading(0, Absent("torn")), Reading(1, Memory(2, 998))]


def test_an_unreadable_cache_makes_the_cards_of_its_container_absent() -> None:
    claims = [Claim("GPU-a", MAIN), Claim("GPU-b", SIDE)]
    measured: Cards = {MAIN: Absent("unknown_layout"), SIDE: {"GPU-a": 1, "GPU-b": 2}}
    assert readings(claims, measured) == [
        Reading(0, Absent("unknown_layout")),
        Reading(1, Memory(2, 998)),
    ]


def test_hami_may_grant_another_card_than_the_kubelet_handed_out() -> None:
    claims = [Claim("GPU-a", MAIN)]
    assert readings(claims, {MAIN: {"GPU-b": 7}}, granted=frozenset({"GPU-b", "GPU-c"})) == [
        Reading(0, Memory(0, 1000)),
        Reading(1, Memory(7, 993)),
    ]


def test_a_tenant_cannot_fill_the_card_of_another() -> None:
    claims = [Claim("GPU-a", MAIN), Claim("GPU-b", SIDE)]
    forged = {MAIN: {"GPU-a": 5, "GPU-b": 900}, SIDE: {"GPU-b": 2}}
    for granted in (frozenset[str](), frozenset({"GPU-a"})):
        assert readings(claims[:1], {MAIN: forged[MAIN]}, granted) == [
            Reading(0, Memory(5, 995)),
            Reading(1, Memory(0, 1000)),
        ]
    assert readings(claims, forged)[1] == Reading(1, Memory(2, 998))


def test_a_cache_that_does_not_name_the_claimed_card_makes_it_absent() -> None:
    silent = Absent("source_disagreement")
    claims = [Claim("GPU-a", MAIN)]
    for granted in (frozenset[str](), frozenset({"GPU-a"}), frozenset({"GPU-c"})):
        assert readings(claims, {MAIN: {"MIG-x": 7}}, granted) == [
            Reading(0, silent),
            Reading(1, Memory(0, 1000)),
        ]


def test_the_figures_of_a_container_without_a_claim_do_not_count() -> None:
    elsewhere = Holder("other", "p", "main")
    measured = {SIDE: {"GPU-a": 7}, elsewhere: {"GPU-a": 9}}
    assert readings([Claim("GPU-b", MAIN)], measured) == [
        Reading(0, Memory(0, 1000)),
        Reading(1, Memory(250, 750)),
    ]


def test_measured_memory_stops_at_the_aperture() -> None:
    claims = [Claim("GPU-a", MAIN)]
    assert readings(claims, {MAIN: {"GPU-a": 1050}})[0] == Reading(0, Memory(1000, 0))
