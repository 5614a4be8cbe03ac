"""Two sources, never mixed."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hami_cache.absent import Absent
from hami_cache.slices.charges import Charge
from hami_cache.slices.figures import Figures, figures
from hami_cache.slices.findings import Finding
from hami_cache.slices.merge import Merged, merge
from hami_cache.slices.section import (
    MAX_DEVICES,
    MAX_USAGES,
    NOT_MEASURED,
    Device,
    Figure,
    Partition,
    Section,
    Usage,
    to_mib,
)
from tests.slices.strategies import CAPACITY_MIB, NVIDIA, Card, cards, charges

MIB = 1 << 20
TORN = Absent("torn")
POISONED = Device(NVIDIA, "GPU-0", "no_pod_component", "no_pod_component", 3, 2, rows_ambiguous=1)
MEASURED = Device(NVIDIA, "GPU-0", rows_returned=1, rows_attributed=1)
some_charges = st.lists(charges, max_size=8)
nothing: st.SearchStrategy[Section | None] = st.none()
maybe_sections = st.one_of(nothing, cards.map(Card.section))


def charge(memory_mib: int | Absent = 0, cores: int | Absent = 0, pod: str = "pod-a") -> Charge:
    memory = memory_mib if isinstance(memory_mib, Absent) else memory_mib * MIB
    return Charge(pod, "main", "GPU-0", memory, cores)


def usage(memory: Figure = NOT_MEASURED, cores: Figure = NOT_MEASURED, pod: str = "pod-a") -> Usage:
    return Usage(NVIDIA, pod, "main", "GPU-0", memory, cores)


@given(maybe_sections, some_charges, st.sampled_from([0, 1024, CAPACITY_MIB]))
def test_a_merged_figure_is_one_sources_figure(
    section: Section | None, given_charges: list[Charge], capacity_mib: int
) -> None:
    merged = merge(section, given_charges, capacities={(NVIDIA, "GPU-0"): capacity_mib})
    for pod in ("pod-a", "pod-b", "pod-c"):
        for name in ("main", "sidecar", "init"):
            for card in ("GPU-0", "GPU-1"):
                own = [c for c in given_charges if who(c) == (pod, name, card)]
                driver = answer(section, pod, name, card)
                found = answer(merged.section, pod, name, card)
                one_source(
                    found.memory_used_mib,
                    driver.memory_used_mib,
                    [to_mib(c.memory_bytes) for c in own if isinstance(c.memory_bytes, int)],
                )
                one_source(
                    found.cores_percent,
                    driver.cores_percent,
                    [min(c.sm_percent, 100) for c in own if isinstance(c.sm_percent, int)],
                )


@given(cards.map(Card.section), some_charges)
def test_the_accounts_of_the_driver_stay(section: Section, given_charges: list[Charge]) -> None:
    merged = merge(section, given_charges).section
    assert merged is not None
    assert [d for d in merged.devices if d.device_id == "GPU-0"] == list(section.devices)
    for device in merged.devices:
        if device not in section.devices:
            assert device == Device(NVIDIA, "GPU-1", "not_measured", "not_measured")


@given(maybe_sections, some_charges)
def test_published_memory_fits_the_card(
    section: Section | None, given_charges: list[Charge]
) -> None:
    merged = merge(section, given_charges, capacities={(NVIDIA, "GPU-0"): CAPACITY_MIB}).section
    shares = merged.usages if merged else ()
    used = [u.memory_used_mib for u in shares if u.device_id == "GPU-0"]
    assert sum(mib for mib in used if isinstance(mib, int)) <= CAPACITY_MIB


@given(
    maybe_sections,
    st.lists(charges, max_size=8, unique_by=lambda c: who(c)),
    st.randoms(use_true_random=False),
)
def test_the_order_of_charges_does_not_matter(
    section: Section | None, given_charges: list[Charge], chance: random.Random
) -> None:
    shuffled = list(given_charges)
    chance.shuffle(shuffled)
    assert merge(section, shuffled) == merge(section, given_charges)


def test_nothing_to_merge_changes_nothing() -> None:
    section = Section(devices=(MEASURED,))
    assert merge(section, []).section == section
    assert merge(Section(), []).section == Section()
    assert merge(None, []).section is None
    assert merge(None, [charge(TORN, TORN)]).section is None


def test_a_poisoned_card_is_filled_and_keeps_its_reason() -> None:
    merged = merge(Section(devices=(POISONED,)), [charge(512, 30), charge(TORN, 7, pod="pod-b")])
    assert merged.section == Section(
        usages=(usage(512, 30), usage(NOT_MEASURED, 7, pod="pod-b")), devices=(POISONED,)
    )
    assert merged.findings == ()


def test_an_absent_figure_is_filled_beside_a_measured_one() -> None:
    device = replace(MEASURED, cores_reason="unsupported")
    merged = merge(Section(usages=(usage(100),), devices=(device,)), [charge(101, 40)])
    assert merged.section == Section(usages=(usage(100, 40),), devices=(device,))


def test_a_zero_the_driver_measured_by_silence_stays_when_the_other_figure_is_filled() -> None:
    device = replace(MEASURED, cores_reason="unsupported")
    merged = merge(Section(devices=(device,)), [charge(0, 40)])
    assert merged.section == Section(usages=(usage(0, 40),), devices=(device,))


def test_caches_alone_are_a_section_and_claim_no_zeros() -> None:
    merged = merge(None, [charge(512, TORN)]).section
    assert merged == Section(
        usages=(usage(512),), devices=(Device(NVIDIA, "GPU-0", "not_measured", "not_measured"),)
    )
    assert figures(merged, NVIDIA, "pod-b", "main", "GPU-0") == Figures(NOT_MEASURED, NOT_MEASURED)


def test_a_disagreement_keeps_the_drivers_figure_and_is_found() -> None:
    section = Section(usages=(usage(1000, 50),), devices=(MEASURED,))
    merged = merge(section, [charge(1200, 61)])
    assert merged.section == section
    assert merged.findings == (
        Finding("source_disagreement", "pod-a", "main", "GPU-0", "memory", 1000, 1200),
        Finding("source_disagreement", "pod-a", "main", "GPU-0", "cores", 50, 61),
    )


def test_ten_percent_is_no_disagreement_nor_is_a_rounding() -> None:
    section = Section(usages=(usage(900, 50),), devices=(MEASURED,))
    assert merge(section, [charge(1000, 60)]).findings == ()
    idle = Section(devices=(MEASURED,))
    assert merge(idle, [charge(1, 0)]).findings == ()
    [finding] = merge(idle, [charge(2, 0)]).findings
    assert (finding.driver, finding.cache) == (0, 2)


def test_a_container_the_driver_saw_idle_is_not_filled() -> None:
    merged = merge(Section(devices=(MEASURED,)), [charge(5000, 0)])
    assert merged.section == Section(devices=(MEASURED,))
    assert [finding.kind for finding in merged.findings] == ["source_disagreement"]


def test_a_charge_above_the_card_is_not_published_and_blinds_nobody_else() -> None:
    merged = merge(
        Section(devices=(POISONED,)),
        [charge(9000, 1), charge(100, 1, pod="pod-b")],
        capacities={(NVIDIA, "GPU-0"): CAPACITY_MIB},
    )
    assert merged.section == Section(
        usages=(usage(NOT_MEASURED, 1), usage(100, 1, pod="pod-b")), devices=(POISONED,)
    )
    [finding] = merged.findings
    assert (finding.kind, finding.driver, finding.cache) == ("over_limit", NOT_MEASURED, 9000)


def test_charges_that_together_pass_the_card_are_not_published() -> None:
    section = Section(usages=(usage(4000, 1),), devices=(MEASURED,))
    unreadable_row = usage(NOT_MEASURED, 1, pod="pod-b")
    section = replace(section, usages=(*section.usages, unreadable_row))
    merged = merge(
        section, [charge(5000, 1, pod="pod-b")], capacities={(NVIDIA, "GPU-0"): CAPACITY_MIB}
    )
    assert merged.section == section


def test_both_sources_are_held_against_the_limit() -> None:
    section = Section(usages=(usage(1000, 1),), devices=(MEASURED,))
    limits = {("pod-a", "main", "GPU-0"): 990 * MIB}
    [finding] = merge(section, [charge(980, 1)], limits=limits).findings
    assert (finding.kind, finding.driver, finding.cache) == ("over_limit", 1000, 980)
    assert merge(section, [charge(980, 1)], limits=dict.fromkeys(limits, 0)).findings == ()


def test_two_charges_for_one_container_and_card_are_both_dropped() -> None:
    merged = merge(Section(devices=(POISONED,)), [charge(1, 1), charge(2, 2)])
    assert merged.section == Section(devices=(POISONED,))


def test_a_partitions_record_stands_alone() -> None:
    partition = Partition(NVIDIA, "pod-a", "main", "GPU-0", "MIG-0", 9856, 100, cores_reason="x")
    section = Section(devices=(POISONED,), partitions=(partition,))
    for device_id in ("GPU-0", "MIG-0"):
        merged = merge(section, [replace(charge(200, 5), device_id=device_id)])
        assert merged.section == section
        assert [(f.figure, f.driver, f.cache) for f in merged.findings] == [("memory", 100, 200)]


def test_of_two_records_of_one_key_the_first_is_the_drivers_word() -> None:
    section = Section(usages=(usage(100), usage(900, 5)), devices=(MEASURED, POISONED))
    assert merge(section, [charge(100, 40)]) == Merged(
        replace(section, usages=(usage(100, 40), usage(900, 5)))
    )
    idle = replace(section, usages=())
    assert merge(idle, [charge(0, 0)]) == Merged(idle)
    twice = tuple(
        Partition(NVIDIA, "pod-a", "main", "GPU-0", "MIG-0", memory_used_mib=mib) for mib in (7, 99)
    )
    assert merge(Section(partitions=twice), [charge(7, 0)]) == Merged(Section(partitions=twice))


def test_other_manufacturers_are_left_alone() -> None:
    theirs = Section(
        usages=(Usage("amd", "pod-a", "main", "GPU-0"),),
        devices=(Device("amd", "GPU-0", "x", "x"),),
    )
    merged = merge(theirs, [charge(5, 5)]).section
    assert merged == Section(
        usages=(*theirs.usages, usage(5, 5)),
        devices=(*theirs.devices, Device(NVIDIA, "GPU-0", "not_measured", "not_measured")),
    )


def test_a_card_dropped_for_the_bounds_stays_dropped() -> None:
    dropped = replace(POISONED, memory_reason="bounded", cores_reason="bounded")
    section = Section(devices=(dropped,), truncated=True)
    assert merge(section, [charge(5, 5)]).section == section


def test_fills_past_the_bound_of_usages_are_left_out_whole() -> None:
    full = tuple(usage(1, 1, pod=f"pod-{i:05d}") for i in range(MAX_USAGES - 1))
    section = Section(usages=full, devices=(replace(MEASURED, device_id="GPU-0"),))
    two = [replace(charge(5, 5, pod=pod), device_id="GPU-9") for pod in ("a", "b")]
    merged = merge(section, two).section
    assert merged is not None
    assert merged.usages == full
    assert merged.truncated
    assert merged.devices[-1] == Device(NVIDIA, "GPU-9", "bounded", "bounded")
    one = merge(section, two[:1]).section
    assert one is not None
    assert len(one.usages) == MAX_USAGES
    assert not one.truncated
    apart = merge(section, [two[0], replace(two[1], device_id="GPU-A")]).section
    assert apart is not None
    assert (len(apart.usages), apart.truncated) == (MAX_USAGES, True)


def test_cards_past_the_bound_are_left_out() -> None:
    section = Section(devices=tuple(Device(NVIDIA, f"GPU-{i:03d}") for i in range(MAX_DEVICES)))
    new = [replace(charge(5, 5), device_id=card) for card in ("GPU-x", "GPU-y")]
    assert merge(section, new).section == replace(section, truncated=True)
    merged = merge(replace(section, devices=section.devices[1:]), new).section
    assert merged is not None
    assert [usage.device_id for usage in merged.usages] == ["GPU-x"]
    assert (len(merged.devices), merged.truncated) == (MAX_DEVICES, True)


def who(given_charge: Charge) -> tuple[str, str, str]:
    return (given_charge.pod_uid, given_charge.container, given_charge.device_id)


def answer(section: Section | None, pod: str, name: str, card: str) -> Figures:
    found = figures(section, NVIDIA, pod, name, card)
    return Figures(NOT_MEASURED, NOT_MEASURED) if isinstance(found, Absent) else found


def one_source(found: Figure, driver: Figure, cached: list[int]) -> None:
    if isinstance(driver, int):
        assert found == driver
    elif isinstance(found, int):
        assert cached == [found]
