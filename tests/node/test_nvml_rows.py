"""Processes and partitions, beyond what the vectors of the real program cover."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.node.nvml import Driver, Listing
from hami_cache.node.nvml_reasons import ErrorCounts, FailedCall
from hami_cache.node.nvml_rows import (
    MAX_PARTITIONS,
    compose_rows,
    read_partitions,
    read_processes,
)
from hami_cache.node.rows import DeviceRows, PartitionTarget, ProcessRow
from hami_cache.testing.nvml import GIB, FakeNvml, Gpu, library

LIST = "nvmlDeviceGetComputeRunningProcesses"
SAMPLES = "nvmlDeviceGetProcessUtilization"


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeNvml]:
    with FakeNvml.loaded(tmp_path) as fake:
        yield fake


@pytest.fixture
def driver(fake: FakeNvml) -> Iterator[Driver]:
    driver = Driver(lambda: None)
    driver.open()
    yield driver
    driver.close()


def test_no_samples_means_idle_and_is_no_error(fake: FakeNvml, driver: Driver) -> None:
    """F9: NOT_FOUND is what a real driver answers then."""
    fake.write(Gpu("GPU-0", processes=[(7, GIB)]))
    errors = ErrorCounts()
    assert read_processes(driver, ["GPU-0"], errors) == [
        DeviceRows("GPU-0", rows=(ProcessRow(7, GIB, 0),))
    ]
    assert fake.calls(SAMPLES)[-1].code == 6
    assert not errors.snapshot()


def test_a_process_without_a_number(fake: FakeNvml, driver: Driver) -> None:
    """F7: WSL's "not available" is no 17 exabytes."""
    fake.write(Gpu("GPU-0", processes=[(7, 2**64 - 1)], samples=[(7, 5, 60)]))
    (device,) = read_processes(driver, ["GPU-0"], ErrorCounts())
    assert device.rows == (ProcessRow(7, None, 60),)


def test_cards_are_found_by_uuid_and_never_dropped(fake: FakeNvml, driver: Driver) -> None:
    lost = Gpu("GPU-2", returns={"nvmlDeviceGetHandleByIndex_v2": [15]})
    fake.write(Gpu("GPU-0", processes=[(1, 1)]), Gpu("GPU-1", processes=[(2, 2)]), lost)
    errors = ErrorCounts()
    devices = read_processes(driver, ["GPU-2", "GPU-1", "GPU-9", "GPU-0"], errors)
    unread = "transient_driver_error"
    assert devices == [
        DeviceRows("GPU-2", unread, unread),
        DeviceRows("GPU-1", rows=(ProcessRow(2, 2, 0),)),
        DeviceRows("GPU-9", unread, unread),
        DeviceRows("GPU-0", rows=(ProcessRow(1, 1, 0),)),
    ]
    assert errors.snapshot() == {FailedCall(2, "nvmlDeviceGetHandleByIndex", "gpu_lost"): 1}


def test_a_uuid_of_two_cards_addresses_neither(fake: FakeNvml, driver: Driver) -> None:
    fake.write(Gpu("GPU-0", processes=[(1, 1)]), Gpu("GPU-0"), Gpu("GPU-0"), Gpu("GPU-1"))
    twin, single = read_processes(driver, ["GPU-0", "GPU-1"], ErrorCounts())
    assert (twin.memory_reason, twin.rows) == ("transient_driver_error", ())
    assert single == DeviceRows("GPU-1")


def test_failed_reads_are_counted(fake: FakeNvml, driver: Driver) -> None:
    fake.write(Gpu("GPU-0", returns={f"{LIST}_v3": [7, "7:5000"], SAMPLES: [3]}))
    errors = ErrorCounts()
    read_processes(driver, ["GPU-0"], errors)
    (device,) = read_processes(driver, ["GPU-0"], errors)
    assert (device.memory_reason, device.cores_reason) == ("truncated", "unsupported")
    assert device.reads_truncated == 1
    assert errors.snapshot()[FailedCall(0, SAMPLES, "unsupported")] == 2


def test_a_partition_of_a_card_that_is_not_there(fake: FakeNvml, driver: Driver) -> None:
    fake.write(Gpu("GPU-0", mig=1, slices=[Gpu("MIG-0", total=GIB)]))
    targets = [PartitionTarget(card, "1g.10gb", (), "MIG-0") for card in ("GPU-9", "GPU-0")]
    missing, there = read_partitions(driver, targets, ErrorCounts())
    assert (missing.memory_reason, missing.memory_total_bytes) == ("transient_driver_error", None)
    assert (there.memory_reason, there.memory_total_bytes) == ("", GIB)


def test_a_card_is_walked_once_for_all_its_partitions(fake: FakeNvml, driver: Driver) -> None:
    fake.write(Gpu("GPU-0", mig=1, slices=[Gpu(f"MIG-{i}", used=i) for i in range(7)]))
    targets = [PartitionTarget("GPU-0", "1g.10gb", (), f"MIG-{i}") for i in range(7)]
    rows = read_partitions(driver, targets, ErrorCounts())
    assert [row.memory_used_bytes for row in rows] == list(range(7))
    assert len(fake.calls("nvmlDeviceGetMaxMigDeviceCount")) == 1
    assert len(fake.calls("nvmlDeviceGetMigDeviceHandleByIndex")) == 7


def test_an_absurd_number_of_partitions_is_not_believed(fake: FakeNvml, driver: Driver) -> None:
    returns = {"nvmlDeviceGetMaxMigDeviceCount": ["0:4294967295"]}
    fake.write(Gpu("GPU-0", mig=1, returns=returns, slices=[Gpu("MIG-0", used=3)]))
    fake.forget_calls()
    target = PartitionTarget("GPU-0", "1g.10gb", (), "MIG-0")
    (row,) = read_partitions(driver, [target], ErrorCounts())
    assert row.memory_used_bytes == 3
    walked = [c for c in fake.calls() if c.name == "nvmlDeviceGetMigDeviceHandleByIndex"]
    assert len(walked) <= MAX_PARTITIONS


CHILD = """
import json
from hami_cache.node.nvml import Driver
driver = Driver(lambda: None)
driver.open()
listing = driver.compute_processes(driver.handle(0))
print(json.dumps([listing.call, [row[:2] for row in listing.rows]]))
"""


@pytest.mark.parametrize(
    ("variant", "suffix"),
    [
        ((), "_v3"),
        (("FAKE_WITHOUT_V3",), "_v2"),
        (("FAKE_WITHOUT_V3", "FAKE_WITHOUT_V2"), ""),
        (("FAKE_WIDE_V3",), "_v2"),
    ],
)
def test_the_newest_process_list_that_can_be_read(
    tmp_path: Path, variant: tuple[str, ...], suffix: str
) -> None:
    """Old drivers lack the newer calls, and version 3 of early R535 would overrun our buffer."""
    fake = FakeNvml(tmp_path)
    rows = [[11, GIB], [22, 2**64 - 1], [4294967295, 0]]
    fake.write(Gpu("GPU-0", processes=[(pid, size) for pid, size in rows]))
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        env=fake.environment(library(*variant).parent),
        check=True,
        capture_output=True,
    )
    assert json.loads(child.stdout) == [LIST + suffix, rows]


PIDS = st.integers(0, 5) | st.integers(0, 2**32 - 1)
PROCESSES = st.lists(st.tuples(PIDS, st.integers(0, 2**64 - 1)), max_size=12)
READINGS = st.lists(
    st.tuples(PIDS, st.integers(0, 3) | st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)),
    max_size=12,
)


@given(processes=PROCESSES, readings=READINGS)
def test_a_complete_read_has_each_listed_process_once(
    processes: list[tuple[int, int]], readings: list[tuple[int, int, int]]
) -> None:
    device = compose_rows("", Listing("", 0, tuple(processes)), Listing("", 0, tuple(readings)))
    assert [row.pid for row in device.rows] == list(dict.fromkeys(pid for pid, _ in processes))
    for row in device.rows:
        own = [
            (stamp, place, sm) for place, (pid, stamp, sm) in enumerate(readings) if pid == row.pid
        ]
        assert row.cores_percent == (max(own)[2] if own else 0)


@given(processes=PROCESSES, readings=READINGS, codes=st.tuples(*[st.integers(-2, 30)] * 2))
def test_a_figure_never_stands_beside_its_reason(
    processes: list[tuple[int, int]], readings: list[tuple[int, int, int]], codes: tuple[int, int]
) -> None:
    listings = Listing("", codes[0], tuple(processes)), Listing("", codes[1], tuple(readings))
    device = compose_rows("", *listings)
    if device.memory_reason:
        assert all(row.memory_bytes is None for row in device.rows)
    if device.cores_reason:
        assert all(row.cores_percent is None for row in device.rows)
