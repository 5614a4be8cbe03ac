"""From what a cache's reader says to charges, and to absences with a name."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hami_cache.absent import Absent
from hami_cache.model import AnomalyKind, Figure
from hami_cache.node.allocations import Allocation, Mode
from hami_cache.node.containers import ContainerKey
from hami_cache.node.devicefigures import DeviceUsage
from hami_cache.node.usage import ContainerUsage
from hami_cache.slices.charges import Charge, Silence, charges, limits, silences, unnamed

POD, MAIN, CARD = "pod-a", "main", "GPU-0"
RUNNING = {"running": 1, "dead": 0}


def device(total: Figure = 5, sm: Figure = 7, limit: int = 0, uuid: str = CARD) -> DeviceUsage:
    return DeviceUsage(0, uuid, limit, 100, total, context=0, module=0, data=0, sm_util=sm)


def usage(
    *devices: DeviceUsage,
    state: str = "ready",
    processes: Mapping[str, int] = RUNNING,
    anomalies: Mapping[AnomalyKind, str] | None = None,
) -> ContainerUsage:
    return ContainerUsage(
        ContainerKey(POD, MAIN),
        state,
        layout="v1.2" if state in ("ready", "mixed") else "",
        devices=devices,
        processes=processes,
        anomalies=anomalies or {},
    )


def share(container: str, card: str = CARD, mode: Mode = Mode.SLICED) -> tuple[str, Allocation]:
    return POD, Allocation(container, "nvidia", card, mode)


def test_a_charge_is_what_the_reader_summed() -> None:
    assert list(charges([usage(device(5, 7))])) == [Charge(POD, MAIN, CARD, 5, 7)]
    assert limits([usage(device(limit=9), device(uuid="GPU-1"))]) == {(POD, MAIN, CARD): 9}


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("counter_underflow", "counter_underflow"),
        ("sum_overflow", "counter_underflow"),
        ("layout_mixed", "unknown_layout"),
        ("layout_ambiguous", "unknown_layout"),
        ("utilization_not_measured", "utilization_not_measured"),
    ],
)
def test_an_absent_figure_keeps_its_reason(reason: str, told: str) -> None:
    [charge] = charges([usage(device(Absent(reason, "why"), 7))])
    assert charge == Charge(POD, MAIN, CARD, Absent(told), 7)
    assert isinstance(charge.memory_bytes, Absent)
    assert charge.memory_bytes.detail == "why"


@pytest.mark.parametrize(
    ("processes", "stale"),
    [
        ({"running": 0, "dead": 1}, True),
        ({"running": 1, "dead": 1}, False),
        ({"suspended": 1, "dead": 1}, False),
        ({"odd": 1, "dead": 1}, False),
        ({"exited": 1, "dead": 1}, True),
        ({"running": 0, "dead": 0}, False),
    ],
)
def test_a_cache_of_the_dead_says_nothing_of_now(processes: Mapping[str, int], stale: bool) -> None:
    [charge] = charges([usage(device(0, 0), processes=processes)])
    dead = Absent("stale_process")
    assert (charge.memory_bytes, charge.sm_percent) == ((dead, dead) if stale else (0, 0))


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("empty", "no_cache"),
        ("unsettled", "torn"),
        ("not_initialised", "not_initialised"),
        ("unknown_layout", "unknown_layout"),
        ("gone", "gone"),
    ],
)
def test_a_cache_that_cannot_be_read_is_a_silence_with_its_state(state: str, reason: str) -> None:
    [silence] = silences([usage(state=state, anomalies={"truncated": "3 bytes"})])
    assert silence == Silence(POD, MAIN, Absent(reason))
    assert silence.reason.detail == "3 bytes"


def test_a_cache_that_was_read_is_silent_only_of_cards_without_a_name() -> None:
    assert list(silences([usage(device()), usage(device(), state="mixed")])) == []
    nameless = usage(device(), anomalies={"uuid_unreadable": "not UTF-8"})
    assert list(silences([nameless])) == [Silence(POD, MAIN, Absent("uuid_unreadable"))]


def test_shares_that_no_cache_names_are_charges_without_figures() -> None:
    torn, no_cache = Absent("torn"), Absent("no_cache")
    charged = [Charge(POD, MAIN, CARD, 5, 7)]
    held = [
        share(MAIN),
        share(MAIN, "GPU-1"),
        share("init", "GPU-1"),
        share("init", "GPU-1"),
        share("init", "GPU-2", Mode.PARTITIONED),
        ("pod-b", Allocation(MAIN, "ascend", "NPU-0", Mode.SLICED)),
    ]
    assert list(unnamed(charged, [Silence(POD, MAIN, torn)], held)) == [
        Charge(POD, MAIN, "GPU-1", torn, torn),
        Charge(POD, "init", "GPU-1", no_cache, no_cache),
    ]


def test_a_share_without_a_container_may_be_of_any_silent_one() -> None:
    torn, new = Absent("torn"), Absent("not_initialised")
    silent = [Silence(POD, "one", torn), Silence(POD, "two", new), Silence("pod-b", "three", new)]
    assert list(unnamed([Charge(POD, "two", CARD, 5, 7)], silent, [share("")])) == [
        Charge(POD, "one", CARD, torn, torn)
    ]
    assert list(unnamed([], [], [share("")])) == []
