"""What upstream's NVIDIA detector made of a driver's answers, given to us by a real shared library.

Every case goes through nvidia-ml-py into the scripted libnvidia-ml.so.1. The one thing no driver
can say is left to `compose_rows` alone: a list that is "not found" and yet has rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from hami_cache.node.nvml import MAX_ROWS, Driver, Listing
from hami_cache.node.nvml_reasons import (
    INSUFFICIENT_SIZE,
    NOT_FOUND,
    ErrorCounts,
    partition_reason,
    process_reason,
)
from hami_cache.node.nvml_rows import compose_rows, read_partitions, read_processes
from hami_cache.node.rows import DeviceRows, PartitionRow, PartitionTarget, Placement
from hami_cache.testing.nvml import FakeNvml, Gpu
from tests.vectors.loader import cases

LIST = "nvmlDeviceGetComputeRunningProcesses_v3"
SAMPLES = "nvmlDeviceGetProcessUtilization"
UUID = "GPU-5ba1a3f2-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeNvml]:
    with FakeNvml.loaded(tmp_path_factory.mktemp("nvml")) as fake:
        yield fake


@pytest.fixture(scope="module")
def driver(fake: FakeNvml) -> Iterator[Driver]:
    driver = Driver(lambda: None)
    driver.open()
    yield driver
    driver.close()


def list_answer(code: int, rows: Sequence[object]) -> list[int | str]:
    """What makes a list call end with `code`: success needs no script unless it is empty."""
    if code == 0:
        return [] if rows else ["0:0"]
    return [f"{code}:{MAX_ROWS + 1}"] if code == INSUFFICIENT_SIZE else [code]


def as_accelerator(device: DeviceRows) -> dict[str, Any]:
    return {
        "id": device.id,
        "memoryReason": device.memory_reason,
        "coresReason": device.cores_reason,
        "processes": [
            {"pid": row.pid, "memoryBytes": row.memory_bytes, "coresPercent": row.cores_percent}
            for row in device.rows
        ],
    }


@pytest.mark.parametrize("case", cases("nvml-rows"))
def test_rows(case: Mapping[str, Any], fake: FakeNvml, driver: Driver) -> None:
    given = case["input"]
    uuid, infos, samples = given["deviceID"], given["infos"] or [], given["samples"] or []
    processes = [(info["pid"], info["usedGpuMemory"]) for info in infos]
    readings = [(s["pid"], s["timeStamp"], s["smUtil"]) for s in samples]

    composed = compose_rows(
        uuid,
        Listing(LIST, given["infoReturn"], tuple(processes)),
        Listing(SAMPLES, given["sampleReturn"], tuple(readings)),
    )
    assert as_accelerator(composed) == case["want"]

    answers = (given["infoReturn"], infos), (given["sampleReturn"], samples)
    if any(code == NOT_FOUND and rows for code, rows in answers):
        return  # see the head of this file
    returns = {LIST: list_answer(*answers[0]), SAMPLES: list_answer(*answers[1])}
    fake.write(Gpu(uuid, processes=processes, samples=readings, returns=returns))
    (device,) = read_processes(driver, [uuid], ErrorCounts())
    assert as_accelerator(device) == case["want"]


@pytest.mark.parametrize("call", [LIST, SAMPLES])
@pytest.mark.parametrize("case", cases("nvml-fill"))
def test_fill(case: Mapping[str, Any], call: str, fake: FakeNvml, driver: Driver) -> None:
    answers = [f"{answer['return']}:{answer['count']}" for answer in case["input"]["calls"]]
    fake.write(Gpu(UUID, returns={call: answers}))
    fake.forget_calls()
    handle = driver.handle(0)
    ask = driver.compute_processes if call == LIST else driver.utilization_samples
    listing = ask(handle)
    asked = [{"buffer": made.buffer, "countIn": made.room} for made in fake.calls(call)]
    got = {"calls": asked, "return": listing.code, "rows": len(listing.rows)}
    assert got == case["want"]


def as_target(request: Mapping[str, Any]) -> PartitionTarget:
    runs = tuple(Placement(p["start"], p["length"]) for p in request["placements"])
    return PartitionTarget(request["deviceID"], request["profile"], runs, request["id"])


def as_slice(handle: Mapping[str, Any]) -> Gpu:
    returns = {
        "nvmlDeviceGetMigDeviceHandleByIndex": [handle.get("handleReturn", 0)],
        "nvmlDeviceGetUUID": handle.get("uuidReturns", [0]),
        "nvmlDeviceGetMemoryInfo_v2": [handle.get("v2Return", 0)],
        "nvmlDeviceGetMemoryInfo": [handle.get("v1Return", 0)],
    }
    return Gpu(
        handle["uuid"],
        total=handle["total"],
        used=handle["used"],
        returns=returns,
        extra=["null"] if handle.get("nilHandle") else [],
    )


def as_partition(row: PartitionRow) -> dict[str, Any]:
    return {
        "deviceID": row.device_id,
        "profile": row.profile,
        "placements": [{"start": p.start, "length": p.length} for p in row.placements],
        "id": row.id,
        "memoryTotalBytes": row.memory_total_bytes,
        "memoryUsedBytes": row.memory_used_bytes,
        "coresPercent": row.cores_percent,
        "memoryReason": row.memory_reason,
        "coresReason": row.cores_reason,
    }


@pytest.mark.parametrize("case", cases("nvml-partitions"))
def test_partitions(case: Mapping[str, Any], fake: FakeNvml, driver: Driver) -> None:
    card = case["input"]["card"]
    targets = [as_target(request) for request in case["input"]["requests"]]
    uuid = targets[0].device_id if targets else UUID
    returns = {
        "nvmlDeviceGetMigMode": [card.get("migModeReturn", 0)],
        "nvmlDeviceGetMaxMigDeviceCount": [card.get("countReturn", 0)],
    }
    slices = [as_slice(handle) for handle in card["handles"] or []]
    fake.write(Gpu(uuid, mig=card.get("migMode", 0), returns=returns, slices=slices))
    rows = read_partitions(driver, targets, ErrorCounts())
    assert [as_partition(row) for row in rows] == case["want"]["partitions"]


@pytest.mark.parametrize("case", cases("nvml-reasons"))
def test_reasons(case: Mapping[str, Any], fake: FakeNvml, driver: Driver) -> None:
    code, want = case["input"]["return"], case["want"]
    assert {"partition": partition_reason(code), "process": process_reason(code)} == want

    part = Gpu(
        "MIG-1", returns={"nvmlDeviceGetMemoryInfo_v2": [code], "nvmlDeviceGetMemoryInfo": [code]}
    )
    returns = {LIST: list_answer(code, []), SAMPLES: list_answer(code, [])}
    fake.write(Gpu(UUID, mig=1, returns=returns, slices=[part]))
    (device,) = read_processes(driver, [UUID], ErrorCounts())
    assert (device.memory_reason, device.cores_reason) == (want["process"], want["process"])
    (row,) = read_partitions(driver, [PartitionTarget(UUID, "1g.10gb", (), "MIG-1")], ErrorCounts())
    assert row.memory_reason == want["partition"]
