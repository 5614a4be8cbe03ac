"""Host metrics through nvidia-ml-py and a real libnvidia-ml.so.1: groups E and F, and B10."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_cache.monitor.collector import ExportOptions
from hami_cache.node.nvml_session import Nvml
from hami_cache.testing import CacheBuilder
from hami_cache.testing.nvml import FakeNvml, Gpu
from tests.monitor.node import Node

MEMORY = "hami_host_gpu_memory_used_bytes"
UTILIZATION = "hami_host_gpu_utilization_ratio"
CONTROLLER = "hami_host_gpu_memory_controller_utilization_ratio"
USED = "hami_vgpu_memory_used_bytes"
NOT_SUPPORTED, UNKNOWN, GPU_LOST = 3, 999, 15


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeNvml]:
    folder = tmp_path / "fake"
    folder.mkdir()
    with FakeNvml.loaded(folder) as fake:
        yield fake


@pytest.fixture
def nvml(fake: FakeNvml, tmp_path: Path) -> Iterator[Nvml]:
    with Nvml(lock=tmp_path / "tmp" / "hami" / "lock", deadline=10, lock_looks=0.02) as session:
        yield session


def with_container(tmp_path: Path, nvml: Nvml, options: ExportOptions | None = None) -> Node:
    node = Node(tmp_path / "hook", nvml=nvml, options=options)
    node.tree.add("pod", "main", CacheBuilder("v1.2").device("GPU-a").process(1, 501, memory=[5]))
    return node


def test_the_hosts_series_have_upstreams_labels(fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> None:
    fake.write(
        Gpu(uuid="GPU-a", name="NVIDIA A100-SXM4-80GB", used=77, utilization=(60, 30)),
        Gpu(uuid="GPU-b", name="Tesla T4", used=5),
    )
    scrape = with_container(tmp_path, nvml, ExportOptions("node-a", legacy=True)).scrape()
    ((labels, value),) = scrape.samples(MEMORY, device_index="0")
    assert value == 77
    assert labels == {
        "zone": "vGPU", "node": "node-a", "device_index": "0", "device_uuid": "GPU-a",
        "device_type": "NVIDIA-NVIDIA A100-SXM4-80GB",
    }  # fmt: skip
    assert scrape.value(UTILIZATION, device_index="0") == 60
    ((labels, value),) = scrape.samples(CONTROLLER, device_index="0")
    assert value == 30
    assert set(labels) == {"zone", "device_index", "device_uuid", "device_type"}
    assert scrape.samples(MEMORY, device_index="1")[0][0]["device_type"] == "NVIDIA-Tesla T4"
    ((old, value),) = scrape.samples("HostGPUMemoryUsage", deviceidx="0")
    assert value == 77
    assert set(old) == {"zone", "nodeid", "deviceidx", "deviceuuid", "devicetype"}
    assert scrape.value("HostCoreUtilization", deviceidx="0") == 60
    assert scrape.value("hami_cache_nvml_up") == 1


def test_e4_the_vendor_can_be_had_once(fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> None:
    fake.write(Gpu(uuid="GPU-a", name="NVIDIA A100"), Gpu(uuid="GPU-b", name="Tesla V100"))
    options = ExportOptions("node-a", vendor_once=True)
    scrape = with_container(tmp_path, nvml, options).scrape()
    for name in (MEMORY, UTILIZATION, CONTROLLER):
        types = {labels["device_type"] for labels, _ in scrape.samples(name)}
        assert types == {"NVIDIA-A100", "NVIDIA-Tesla V100"}


def test_e9_board_readings_come_on_request_and_what_is_unsupported_is_absent(
    fake: FakeNvml, tmp_path: Path
) -> None:
    fake.write(
        Gpu(uuid="GPU-a", board=(41, 70_000, 2)),
        Gpu(uuid="GPU-b", returns={"nvmlDeviceGetTotalEccErrors": [NOT_SUPPORTED]}),
    )
    with Nvml(lock=tmp_path / "lock", deadline=10, board_readings=True) as nvml:
        scrape = with_container(tmp_path, nvml, ExportOptions("node-a", board=True)).scrape()
    assert scrape.value("hami_cache_host_gpu_temperature_celsius", device_uuid="GPU-a") == 41
    assert scrape.value("hami_cache_host_gpu_power_watts", device_uuid="GPU-a") == 70
    assert scrape.values("hami_cache_host_gpu_ecc_errors") == [2]


def test_f1_each_reading_fails_alone(fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> None:
    fake.write(
        Gpu(
            uuid="GPU-a",
            returns={
                "nvmlDeviceGetMemoryInfo": [UNKNOWN],
                "nvmlDeviceGetUtilizationRates": [NOT_SUPPORTED],
            },
        ),
        Gpu(uuid="GPU-b", used=9, utilization=(5, 6)),
    )
    scrape = with_container(tmp_path, nvml).scrape()
    assert scrape.samples(MEMORY, device_uuid="GPU-a") == []
    assert scrape.samples(UTILIZATION, device_uuid="GPU-a") == []
    assert scrape.value(MEMORY, device_uuid="GPU-b") == 9
    assert scrape.values(USED) == [5]
    calls = {labels["call"] for labels, _ in scrape.samples("hami_cache_nvml_errors_total")}
    assert any("MemoryInfo" in call for call in calls)


def test_f2_unified_memory_has_no_memory_series_and_all_others(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    fake.write(
        Gpu(
            uuid="GPU-a",
            utilization=(44, 3),
            returns={"nvmlDeviceGetMemoryInfo": [NOT_SUPPORTED]},
        )
    )
    scrape = with_container(tmp_path, nvml).scrape()
    assert scrape.samples(MEMORY) == []
    assert scrape.value(UTILIZATION) == 44
    assert scrape.value(CONTROLLER) == 3


def test_f4_a_lost_gpu_is_down_and_the_others_keep_their_index(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    lost = {"nvmlDeviceGetHandleByIndex_v2": [GPU_LOST], "nvmlDeviceGetHandleByIndex": [GPU_LOST]}
    gpus = [Gpu(uuid=f"GPU-{name}", used=n) for n, name in enumerate("abcd")]
    fake.write(gpus[0], Gpu(uuid="GPU-b", returns=lost), *gpus[2:])
    node = with_container(tmp_path, nvml)
    scrape = node.scrape()
    assert scrape.value("hami_cache_host_gpu_up", device_index="1") == 0
    found = {labels["device_index"]: labels["device_uuid"] for labels, _ in scrape.samples(MEMORY)}
    assert found == {"0": "GPU-a", "2": "GPU-c", "3": "GPU-d"}
    fake.write(*gpus)
    assert node.scrape().value("hami_cache_host_gpu_up", device_index="1") == 1


def test_f10_nvml_is_let_go_while_mig_changes_and_comes_back(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    fake.write(Gpu(uuid="GPU-a", used=7))
    node = with_container(tmp_path, nvml)
    assert node.scrape().values(MEMORY) == [7]
    lock = tmp_path / "tmp" / "hami" / "lock"
    lock.touch()
    scrape = node.scrape()
    assert scrape.samples(MEMORY) == []
    assert scrape.value("hami_cache_nvml_up", reason="mig_apply") == 0
    assert scrape.values(USED) == [5]
    assert not fake.held()
    lock.unlink()
    assert node.scrape().values(MEMORY) == [7]


def test_f12_a_mig_parent_without_utilization_costs_nobody_else(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    unsupported = {"nvmlDeviceGetUtilizationRates": [NOT_SUPPORTED]}
    fake.write(
        Gpu(uuid="GPU-mig", mig=1, used=3, returns=unsupported),
        *(Gpu(uuid=f"GPU-{n}", utilization=(n, 0)) for n in range(3)),
    )
    scrape = with_container(tmp_path, nvml).scrape()
    assert len(scrape.samples(MEMORY)) == 4
    assert sorted(scrape.values(UTILIZATION)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("driver", "disagree"), [(1100, False), (2000, True)], ids=["a context", "half of it"]
)
def test_b10_both_figures_and_their_gap_are_shown(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path, driver: int, disagree: bool
) -> None:
    fake.write(Gpu(uuid="GPU-a", used=5000, processes=[(501, driver), (999, 3000)]))
    node = Node(tmp_path / "hook", nvml=nvml)
    builder = CacheBuilder("v1.2").device("GPU-a").process(1, 501, memory=[1000])
    node.tree.add("pod", "main", builder)
    scrape = node.scrape()
    assert scrape.values(USED) == [1000]
    assert scrape.values("hami_cache_driver_memory_bytes") == [driver]
    assert scrape.values("hami_cache_driver_gap_bytes") == [driver - 1000]
    assert ("source_disagreement" in scrape.anomalies()) is disagree


def test_b10_no_gap_is_made_up_where_a_process_is_not_known(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    fake.write(Gpu(uuid="GPU-a", processes=[(501, 1100)]))
    node = Node(tmp_path / "hook", nvml=nvml)
    builder = CacheBuilder("v1.2").device("GPU-a").process(1, 501, memory=[1000])
    node.tree.add("pod", "main", builder.process(2, 0, memory=[50]))
    scrape = node.scrape()
    assert scrape.samples("hami_cache_driver_gap_bytes") == []


def test_f7_a_number_that_is_not_available_is_no_number(
    fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    fake.write(Gpu(uuid="GPU-a", processes=[(501, 2**64 - 1)]))
    node = Node(tmp_path / "hook", nvml=nvml)
    builder = CacheBuilder("v1.2").device("GPU-a").process(1, 501, memory=[1000])
    node.tree.add("pod", "main", builder)
    scrape = node.scrape()
    assert scrape.samples("hami_cache_driver_memory_bytes") == []
    assert scrape.values(USED) == [1000]
