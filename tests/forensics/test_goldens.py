"""Doctor on what the real writers left: every scenario is told, and no file is accused of more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hami_cache.forensics.anomalies import Diagnosis
from hami_cache.forensics.recover import RecoveredSlot, balances, recover
from hami_cache.read.look import identify
from hami_cache.spec import registry
from tests.forensics.helpers import doctor, kinds
from tests.goldens import Golden, golden, header, params, slots

SCENARIOS: dict[str, set[str]] = {
    "fresh": set(),
    "fresh-noinfo": set(),
    "busy": set(),
    "many": set(),
    "exited": set(),
    "exited-alloc": set(),
    "allgone": set(),
    "moved": set(),
    "oomclean": set(),
    "killed": set(),
    "reuse": set(),
    "mapped": set(),
    "scaled": set(),
    "nolimit": {"limit_unset"},
    "underflow": {"counter_underflow"},
    "midwrite": {"stuck_seqlock", "sum_mismatch"},
    "midwrite-late": {"stuck_seqlock"},
    "oddlive": {"stuck_seqlock", "sum_mismatch"},
    "lockdead": {"lock_held"},
    "lockdead-first": {"lock_held"},
    "postdead": {"lock_held"},
    "overdev": {"device_num_out_of_range"},
    "partial": {"not_initialised"},
    "partial-limits": {"not_initialised"},
    "empty": {"not_initialised"},
}
"""What each scenario is made to show; `figures` adds what the numbers happen to say."""

COMMITS = ("-9b46404", "-b69b1ea")
NOBODY_CAN_TELL = ("v1--lockdead-first", "v1-seqlock--lockdead-first")
"""No slot is in use: v1 and v1-seqlock read the same."""


def scenario(one: Golden) -> str:
    name = one.scenario
    for commit in COMMITS:
        name = name.removesuffix(commit)
    return name


def figures(want: Any) -> Iterator[str]:
    """Kinds that follow from the numbers a C program read, whatever the scenario."""
    head, listed = header(want), slots(want)
    counted = [slot for slot in listed if slot["counted"]]
    for slot in listed:
        if slot["index"] >= head["proc_num"]:
            yield "stale_slot"
        elif slot["status"] == 0:
            yield "exited_slot"
    for slot in counted:
        if slot["hostpid"] == 0 and head["device_num"]:
            yield "hostpid_unknown"
        if slot["device_util"] is not None and unmeasured(head, slot):
            yield "utilization_not_measured"
    for device in range(min(head["device_num"], 16)):
        totals = [slot["used"][device]["total"] for slot in counted]
        sound = all(total < 1 << 63 for total in totals)
        if sound and 0 < head["limit"][device] < sum(totals):
            yield "over_limit"
        if sum(s["device_util"][device]["sm"] for s in counted if s["device_util"]) > 100:
            yield "utilization_over_100"


def unmeasured(head: Any, slot: Any) -> bool:
    watched = any(slot["monitorused"]) or any(util["sm"] for util in slot["device_util"])
    uses = any(use["total"] for use in slot["used"])
    limits = head["sm_limit"][: head["device_num"]]
    reason = slot["hostpid"] == 0 or all(limit in (0, 100) or limit > 100 for limit in limits)
    return uses and not watched and reason


@pytest.mark.parametrize("one", params(lambda g: not (g.parties or g.synthetic)))
def test_a_golden_is_accused_of_what_it_is_and_of_nothing_else(one: Golden, tmp_path: Path) -> None:
    found = doctor(one.write(tmp_path))
    expected = set(SCENARIOS[scenario(one)])
    if one.name in NOBODY_CAN_TELL:
        expected.add("layout_ambiguous")
    if not one.blank:
        expected |= set(figures(one.want))
    assert kinds(found) == expected


@pytest.mark.parametrize("one", params(lambda g: g.plain))
def test_every_field_path_leads_to_its_offset(one: Golden, tmp_path: Path) -> None:
    found = doctor(one.write(tmp_path))
    for finding in found.findings:
        place = finding.anomaly.where
        if place and not place.startswith("devices["):
            assert finding.offset is not None
            assert 0 <= finding.offset < len(one.data)


@pytest.mark.parametrize("one", params(lambda g: g.parties))
def test_a_mixed_golden_says_so_and_does_not_take_the_other_layout_for_damage(
    one: Golden, tmp_path: Path
) -> None:
    found = doctor(one.write(tmp_path))
    assert found.verdict == "mixed"
    assert kinds(found) >= {"layout_mixed"}
    assert not kinds(found) & {
        "uuid_unreadable", "device_num_out_of_range", "status_out_of_range", "counter_underflow",
    }  # fmt: skip


def recovered(found: Diagnosis) -> dict[tuple[str, int, int], RecoveredSlot]:
    assert found.recovered is not None
    return {(s.layout.name, s.slot.index, s.slot.pid): s for s in found.recovered.slots}


def intact(view: Any, pids: set[int]) -> Iterator[Any]:
    """A view's slots of those processes that balance on every device they use."""
    for slot in view["slots"]:
        sums = [
            (u["context"] + u["module"] + u["data"] - u["total"]) % (1 << 64) == 0
            for u in slot["used"]
            if any(u.values())
        ]
        if slot["pid"] in pids and sums and all(sums):
            yield slot


@pytest.mark.parametrize("one", params(lambda g: g.parties))
def test_a_mixed_file_is_recovered_slot_by_slot(one: Golden, tmp_path: Path) -> None:
    slots_found = recovered(doctor(one.write(tmp_path)))
    for layout, view in one.views().items():
        mine = {p["pid"] for p in one.want["meta"]["processes"] if p["layout"] == layout}
        for slot in intact(view, mine):
            got = slots_found[layout, slot["index"], slot["pid"]].slot
            totals = [
                (use.total, u["total"]) for use, u in zip(got.used, slot["used"], strict=False)
            ]
            assert all(mine == theirs for mine, theirs in totals)
            assert not any(use.total for use in got.used[len(slot["used"]) :])
            assert not any(u["total"] for u in slot["used"][len(got.used) :])


@pytest.mark.parametrize("one", params(lambda g: g.parties))
def test_nothing_recovered_belongs_to_nobody(one: Golden, tmp_path: Path) -> None:
    writers = {(p["layout"], p["pid"]) for p in one.want["meta"]["processes"]}
    for layout, _, pid in recovered(doctor(one.write(tmp_path))):
        assert (layout, pid) in writers


def test_figures_of_a_wholly_recovered_file_are_sums_over_both_layouts(tmp_path: Path) -> None:
    one = golden("v1.2--mixed-v1-seqlock-then-v1.2")
    found = doctor(one.write(tmp_path)).recovered
    assert found is not None
    views = one.views()
    expected = [
        sum(s["used"][d]["total"] for s in views["v1-seqlock"]["slots"][:2])
        + views["v1.2"]["slots"][2]["used"][d]["total"]
        for d in range(2)
    ]
    assert [device.used for device in found.devices] == expected
    assert [device.uuid for device in found.devices] == one.want["header"]["uuids"][:2]
    assert not found.lost


def test_a_sum_without_a_slot_that_was_written_over_is_absent(tmp_path: Path) -> None:
    found = doctor(golden("v1.2--mixed-v1-sem-then-v1.2").write(tmp_path)).recovered
    assert found is not None
    assert {lost.layout for lost in found.lost} == {"v1-sem", "v1.2"}
    assert all(getattr(device.used, "reason", None) == "layout_mixed" for device in found.devices)


def test_a_slot_that_half_balances_gives_only_that_half(tmp_path: Path) -> None:
    found = doctor(golden("v1--mixed-v0-then-v1").write(tmp_path)).recovered
    assert found is not None
    (slot,) = found.slots
    assert [balances(use) for use in slot.slot.used[:2]] == [False, True]


def test_a_file_that_was_cut_meanwhile_gives_nothing() -> None:
    one = golden("v1.2--mixed-v1-then-v1.2")
    known = registry.layouts()
    parties = [known[name] for name in one.parties]
    cut = recover(one.data[:100], parties, identify(one.data), 100)
    assert (cut.slots, cut.lost, cut.devices) == ((), (), ())
