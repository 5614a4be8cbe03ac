"""The cards themselves, as a driver in every state of health reports them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hami_cache.absent import Absent
from hami_cache.node.nvml_cards import MAX_DEVICES
from hami_cache.node.nvml_host import NOT_READ, HostDevice, device_type
from hami_cache.node.nvml_reasons import FailedCall
from hami_cache.node.nvml_session import Nvml
from hami_cache.node.nvml_status import HostReport
from hami_cache.testing.nvml import GIB, FakeNvml, Gpu

UNKNOWN, NOT_SUPPORTED, NO_PERMISSION, GPU_LOST = 999, 3, 4, 15
MEMORY = "nvmlDeviceGetMemoryInfo"
RATES = "nvmlDeviceGetUtilizationRates"
BOARD = ("nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEccErrors")


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeNvml]:
    with FakeNvml.loaded(tmp_path) as fake:
        yield fake


@pytest.fixture
def nvml(fake: FakeNvml, tmp_path: Path) -> Iterator[Nvml]:
    with Nvml(lock=tmp_path / "hami" / "lock") as nvml:
        yield nvml


def card(number: int, **changes: Any) -> Gpu:
    facts: dict[str, Any] = {
        "uuid": f"GPU-{number}",
        "total": 16 * GIB,
        "used": number * GIB,
        "utilization": (10 * number, number),
    }
    return Gpu(**{**facts, **changes})


def healthy(number: int) -> HostDevice:
    return HostDevice(
        index=number,
        uuid=f"GPU-{number}",
        name="Tesla T4",
        memory_used=number * GIB,
        memory_total=16 * GIB,
        gpu_utilization=10 * number,
        memory_utilization=number,
        mig_enabled=False,
    )


def by_index(report: HostReport) -> Mapping[int, HostDevice]:
    return {device.index: device for device in report.devices}


def test_every_reading_of_every_card(fake: FakeNvml, nvml: Nvml) -> None:
    fake.write(card(0), card(1, mig=1), card(2))
    report = nvml.host_devices()
    assert report.status.up
    assert report.devices[::2] == (healthy(0), healthy(2))
    assert report.devices[1].mig_enabled is True
    assert not report.bad
    assert not nvml.errors


def test_a_reading_fails_alone(fake: FakeNvml, nvml: Nvml) -> None:
    """F1: memory unknown, utilization unsupported, on one card of two."""
    fake.write(card(0, returns={MEMORY: [UNKNOWN], RATES: [NOT_SUPPORTED]}), card(1))
    report = nvml.host_devices()
    sick, fine = report.devices
    assert fine == healthy(1)
    assert sick.memory_used == sick.memory_total == Absent("transient_driver_error")
    assert sick.gpu_utilization == sick.memory_utilization == Absent("unsupported")
    nvml.host_devices()
    assert nvml.errors == {
        FailedCall(0, MEMORY, "transient_driver_error"): 2,
        FailedCall(0, RATES, "unsupported"): 2,
    }


def test_the_reason_names_the_call_for_people(fake: FakeNvml, nvml: Nvml) -> None:
    fake.write(card(0, returns={MEMORY: [NO_PERMISSION]}))
    used = nvml.host_devices().devices[0].memory_used
    assert isinstance(used, Absent)
    assert used.reason == "permission"
    assert used.detail == "nvmlDeviceGetMemoryInfo answered NoPermission (4)"


@pytest.mark.parametrize(
    "unified", [{"returns": {MEMORY: [NOT_SUPPORTED]}}, {"total": 0}, {"total": 2**64 - 1}]
)
def test_unified_memory_is_not_zero(fake: FakeNvml, nvml: Nvml, unified: Mapping[str, Any]) -> None:
    """F2: the card's own memory is unsupported, its utilization comes all the same."""
    fake.write(card(0, used=0, **unified), card(1))
    device = nvml.host_devices().devices[0]
    assert device.memory_used == device.memory_total == Absent("unsupported")
    assert (device.gpu_utilization, device.memory_utilization) == (0, 0)


def test_impossible_numbers_are_absent(fake: FakeNvml, nvml: Nvml) -> None:
    fake.write(card(0, used=17 * GIB, utilization=(101, 100)))
    device = nvml.host_devices().devices[0]
    assert device.memory_used == device.gpu_utilization == Absent("invalid_data")
    assert (device.memory_total, device.memory_utilization) == (16 * GIB, 100)


def test_a_card_without_a_handle_leaves_the_others_their_index(fake: FakeNvml, nvml: Nvml) -> None:
    """F4: index 1 of 4 is lost; it recovers when it answers again."""
    lost = card(1, returns={"nvmlDeviceGetHandleByIndex_v2": [GPU_LOST, 0]})
    fake.write(card(0), lost, card(2), card(3))
    report = nvml.host_devices()
    assert by_index(report) == {i: healthy(i) for i in (0, 2, 3)}
    (bad,) = report.bad
    assert (bad.index, bad.reason) == (1, "gpu_lost")
    assert "nvmlDeviceGetHandleByIndex" in bad.detail
    assert by_index(nvml.host_devices()) == {i: healthy(i) for i in range(4)}


def test_a_card_lost_midway_has_no_numbers(fake: FakeNvml, nvml: Nvml) -> None:
    """F4: what it answered before it was lost is not of now."""
    fake.write(card(0, returns={RATES: [GPU_LOST]}), card(1))
    report = nvml.host_devices()
    assert by_index(report) == {1: healthy(1)}
    assert [(bad.index, bad.reason) for bad in report.bad] == [(0, "gpu_lost")]
    assert nvml.errors == {FailedCall(0, RATES, "gpu_lost"): 1}


@pytest.mark.parametrize(
    "nameless",
    [
        {"uuid": ""},
        {"uuid": b"GPU-\xff"},
        {"name": b"Tesla \xc3"},
        {"returns": {"nvmlDeviceGetUUID": [UNKNOWN]}},
        {"returns": {"nvmlDeviceGetName": [UNKNOWN]}},
    ],
)
def test_a_card_that_cannot_be_labelled_is_bad(
    fake: FakeNvml, nvml: Nvml, nameless: Mapping[str, Any]
) -> None:
    """F4: an empty UUID, and its like."""
    fake.write(card(0, **nameless), card(1))
    report = nvml.host_devices()
    assert by_index(report) == {1: healthy(1)}
    assert [(bad.index, bad.reason) for bad in report.bad] == [(0, "transient_driver_error")]
    assert len(nvml.errors) == 1


def test_a_lost_card_is_looked_for_by_opening_nvml_anew(fake: FakeNvml, tmp_path: Path) -> None:
    """NVML itself finds a card again only when it is initialised."""
    with Nvml(lock=tmp_path / "lock", reopen_after=0) as nvml:
        fake.write(card(0), card(1, extra=["lost"]))
        assert by_index(nvml.host_devices()) == {0: healthy(0)}
        fake.write(card(0), card(1))
        assert by_index(nvml.host_devices()) == {0: healthy(0), 1: healthy(1)}


def test_nvml_is_not_opened_anew_on_every_pass(fake: FakeNvml, nvml: Nvml) -> None:
    fake.write(card(0), card(1, extra=["lost"]))
    for _ in range(3):
        assert len(nvml.host_devices().bad) == 1
    assert len(fake.calls("nvmlInitWithFlags")) == 1


def test_a_mig_parent_among_four(fake: FakeNvml, nvml: Nvml) -> None:
    """F12: only the parent's utilization is missing; a card that knows no MIG is no error."""
    parent = card(1, mig=1, returns={RATES: [NOT_SUPPORTED]})
    old = card(3, returns={"nvmlDeviceGetMigMode": [NOT_SUPPORTED]})
    fake.write(card(0), parent, card(2), old)
    devices = by_index(nvml.host_devices())
    assert [devices[i] for i in (0, 2, 3)] == [healthy(i) for i in (0, 2, 3)]
    assert devices[1].gpu_utilization == Absent("unsupported")
    assert (devices[1].memory_used, devices[1].mig_enabled) == (GIB, True)
    assert nvml.errors == {FailedCall(1, RATES, "unsupported"): 1}


def test_what_the_board_measures_is_asked_for_on_request(fake: FakeNvml, tmp_path: Path) -> None:
    """E9: a board without ECC has no ECC errors, which is not 0."""
    no_ecc = card(0, board=(71, 250_000, 0), returns={BOARD[2]: [NOT_SUPPORTED]})
    fake.write(no_ecc, card(1, board=(30, 10_000, 2), returns={BOARD[0]: [NOT_SUPPORTED]}))
    with Nvml(lock=tmp_path / "lock") as nvml:
        assert nvml.host_devices().devices[0].ecc_errors == NOT_READ
        assert not any(call.name in BOARD for call in fake.calls())
    with Nvml(lock=tmp_path / "lock", board_readings=True) as nvml:
        first, second = nvml.host_devices().devices
    assert (first.temperature, first.power) == (71, 250_000)
    assert first.ecc_errors == second.temperature == Absent("unsupported")
    assert (second.power, second.ecc_errors) == (10_000, 2)


def test_an_absurd_count_is_not_believed(fake: FakeNvml, nvml: Nvml) -> None:
    fake.write(card(0), returns={"nvmlDeviceGetCount_v2": ["0:4294967295"]})
    report = nvml.host_devices()
    assert by_index(report) == {0: healthy(0)}
    assert len(report.bad) == MAX_DEVICES - 1


@pytest.mark.parametrize(
    ("name", "upstream", "once"),
    [
        ("NVIDIA A100-SXM4-80GB", "NVIDIA-NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB"),
        ("Tesla V100-PCIE-32GB", "NVIDIA-Tesla V100-PCIE-32GB", "NVIDIA-Tesla V100-PCIE-32GB"),
        ("NVIDIA-A10", "NVIDIA-NVIDIA-A10", "NVIDIA-A10"),
        ("", "NVIDIA-", "NVIDIA-"),
    ],
)
def test_the_label_device_type(name: str, upstream: str, once: str) -> None:
    """E4: the default is spelled as the program being replaced spells it."""
    assert device_type(name) == upstream
    assert device_type(name, vendor_once=True) == once


TEXT = st.binary(max_size=95).map(lambda raw: raw.replace(b"\0", b""))
CODES = st.lists(st.integers(-1, 30) | st.integers(-(2**31), 2**31 - 1), max_size=3)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    uuid=TEXT,
    name=TEXT,
    memory=st.tuples(*[st.integers(0, 2**64 - 1)] * 2),
    rates=st.tuples(*[st.integers(0, 2**32 - 1)] * 2),
    returns=st.dictionaries(st.sampled_from([MEMORY, RATES, "nvmlDeviceGetName"]), CODES),
)
def test_whatever_one_card_answers_the_next_is_read(
    fake: FakeNvml,
    nvml: Nvml,
    uuid: bytes,
    name: bytes,
    memory: tuple[int, int],
    rates: tuple[int, int],
    returns: dict[str, list[int]],
) -> None:
    hostile = Gpu(uuid, name, *memory, utilization=rates, returns=returns)
    fake.write(hostile, card(1))
    report = nvml.host_devices()
    assert by_index(report)[1] == healthy(1)
    assert len(report.devices) + len(report.bad) == 2
    for device in report.devices:
        for percent in (device.gpu_utilization, device.memory_utilization):
            assert isinstance(percent, Absent) or 0 <= percent <= 100
