"""The metrics that operators already have dashboards for: names, labels and values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest

from hami_cache import layouts
from hami_cache.monitor.collector import ExportOptions
from hami_cache.monitor.exposition import expose
from hami_cache.testing import CacheBuilder, Memory
from tests.monitor.node import Node, Scrape

CONTAINER = {"zone", "namespace", "pod", "container", "vdevice_index", "device_uuid"}
LEGACY = {"zone", "podnamespace", "podname", "ctrname", "vdeviceid", "deviceuuid"}
CONTAINER_METRICS = [
    "hami_vgpu_memory_used_bytes",
    "hami_vgpu_memory_limit_bytes",
    "hami_container_device_memory_bytes",
    "hami_container_device_utilization_ratio",
    "hami_vgpu_memory_context_bytes",
    "hami_vgpu_memory_module_bytes",
    "hami_vgpu_memory_buffer_bytes",
]
NOW = 1_800_000_000


def busy(layout: str) -> CacheBuilder:
    builder = CacheBuilder(layout, last_kernel_time=NOW - 42)
    builder.device("GPU-one", limit=8 << 30, sm_limit=50).device("GPU-two", limit=4 << 30)
    builder.process(
        7,
        memory=[Memory(context=100, module=20, data=3), Memory(context=7)],
        sm_util=[30, 5],
        monitorused=[200, 9],
    )
    builder.process(8, status=2, memory=[Memory(data=1000)], sm_util=[12], monitorused=[1000])
    builder.process(9, status=0, memory=[Memory(data=5000)])
    return builder


@pytest.mark.parametrize("layout", layouts())
def test_every_layout_gives_the_contracts_series(tmp_path: Path, layout: str) -> None:
    node = Node(tmp_path, clock=lambda: float(NOW))
    node.tree.add("pod", "main", busy(layout))
    scrape = node.scrape()
    has_utilization = layouts()[layout].has("procs.device_util.sm")

    def figure(name: str, card: str) -> list[float]:
        return scrape.values(name, device_uuid=card)

    for name in CONTAINER_METRICS:
        for labels, _ in scrape.samples(name):
            assert set(labels) == CONTAINER
            assert labels["zone"] == "vGPU"
            assert (labels["namespace"], labels["pod"], labels["container"]) == (
                "default", "pod", "main",
            )  # fmt: skip
    assert figure("hami_vgpu_memory_used_bytes", "GPU-one") == [1123]
    assert figure("hami_container_device_memory_bytes", "GPU-one") == [1123]
    assert figure("hami_vgpu_memory_used_bytes", "GPU-two") == [7]
    assert figure("hami_vgpu_memory_limit_bytes", "GPU-one") == [8 << 30]
    assert figure("hami_vgpu_memory_context_bytes", "GPU-one") == [100]
    assert figure("hami_vgpu_memory_module_bytes", "GPU-one") == [20]
    assert figure("hami_vgpu_memory_buffer_bytes", "GPU-one") == [1003]
    expected = [42.0] if has_utilization else []
    assert figure("hami_container_device_utilization_ratio", "GPU-one") == expected
    elapsed = [42.0] if layouts()[layout].has("last_kernel_time") else []
    assert figure("hami_container_last_kernel_elapsed_seconds", "GPU-one") == elapsed
    assert scrape.value("hami_cache_processes", state="running") == 1
    assert scrape.value("hami_cache_processes", state="suspended") == 1
    assert scrape.value("hami_cache_processes", state="exited") == 1
    info = scrape.samples("hami_cache_info")[0][0]
    assert info["layout"] == layout


def test_the_fast_exposition_says_what_prometheus_client_would(tmp_path: Path) -> None:
    node = Node(tmp_path, options=ExportOptions("node-a", legacy=True))
    for layout in layouts():
        node.tree.add(f"pod-{layout}", "main", busy(layout))
    ours = Scrape(expose(node.collector.collect()).decode())
    theirs = Scrape(generate_latest(node.collector).decode())
    moving = {"hami_cache_pass_duration_seconds", "hami_cache_last_pass_timestamp_seconds"}
    created = {name for name in theirs.families if name.endswith("_created")}
    assert ours.families.keys() == theirs.families.keys() - created
    for name in ours.families.keys() - moving:
        assert ours.families[name].type == theirs.families[name].type
        assert ours.families[name].documentation == theirs.families[name].documentation
        pick = [
            sorted(
                (s.name, sorted(s.labels.items()), s.value) for s in scrape.families[name].samples
            )
            for scrape in (ours, theirs)
        ]
        assert pick[0] == pick[1], name


def test_legacy_names_come_only_when_asked_for(tmp_path: Path) -> None:
    node = Node(tmp_path, clock=lambda: float(NOW))
    node.tree.add("pod", "main", busy("v1.2"))
    legacy = Node(tmp_path, options=ExportOptions("node-a", legacy=True), clock=lambda: float(NOW))
    legacy.tree.add("pod", "main", busy("v1.2"))
    names = {
        "vGPU_device_memory_usage_in_bytes": 1123,
        "vGPU_device_memory_limit_in_bytes": 8 << 30,
        "Device_utilization_desc_of_container": 42,
        "Device_last_kernel_of_container": 42,
        "Device_memory_desc_of_container": 1123,
    }
    plain, full = node.scrape(), legacy.scrape()
    for name, value in names.items():
        assert not plain.samples(name)
        ((labels, found),) = full.samples(name, deviceuuid="GPU-one")
        extra = {"context", "module", "data", "offset"} if "memory_desc" in name else set()
        assert set(labels) == LEGACY | extra
        assert found == value
    described, _ = full.samples("Device_memory_desc_of_container", deviceuuid="GPU-one")[0]
    parts = {key: described[key] for key in ("context", "module", "data", "offset")}
    assert parts == {"context": "100", "module": "20", "data": "1003", "offset": "0"}


def test_e2_labels_do_not_change_with_usage(tmp_path: Path) -> None:
    node = Node(tmp_path)
    path = node.tree.add("pod", "main", busy("v1.2"))
    before = node.scrape()
    path.write_bytes(busy("v1.2").process(7, memory=[Memory(data=77777)], index=0).build())
    after = node.scrape()
    for name in CONTAINER_METRICS:
        assert [labels for labels, _ in before.samples(name)] == [
            labels for labels, _ in after.samples(name)
        ]
    assert before.value("hami_vgpu_memory_used_bytes", device_uuid="GPU-one") != after.value(
        "hami_vgpu_memory_used_bytes", device_uuid="GPU-one"
    )


def test_last_kernel_is_absent_when_it_was_never_set_and_never_negative(tmp_path: Path) -> None:
    node = Node(tmp_path, clock=lambda: float(NOW))
    never = CacheBuilder("v1.2", last_kernel_time=0).process(7, memory=[1])
    ahead = CacheBuilder("v1.2", last_kernel_time=NOW + 30).process(7, memory=[1])
    node.tree.add("never", "main", never)
    node.tree.add("ahead", "main", ahead)
    scrape = node.scrape()
    name = "hami_container_last_kernel_elapsed_seconds"
    assert scrape.samples(name, pod="never") == []
    assert scrape.value(name, pod="ahead") == 0


def test_build_information_has_upstreams_labels_and_no_zone(tmp_path: Path) -> None:
    ((labels, value),) = Node(tmp_path).scrape().samples("hami_build_info")
    assert value == 1
    assert set(labels) == {
        "version", "revision", "build_date", "go_version", "compiler", "platform",
    }  # fmt: skip
    assert labels["go_version"] == ""
    assert labels["version"]


MIG = {
    "containerIndex": 1,
    "deviceIndex": 0,
    "gpuUUID": "GPU-parent",
    "profile": "1g.10gb",
    "placement": {"start": 0, "size": 1},
    "migUUID": "MIG-child",
    "gpuInstanceID": 7,
    "computeInstanceID": 0,
}


def test_mig_devices_come_from_the_annotation_init_containers_first(tmp_path: Path) -> None:
    node = Node(tmp_path, options=ExportOptions("node-a", legacy=True))
    node.tree.add("pod", "setup", busy("v1.2"), kind="init")
    node.tree.add("pod", "main", busy("v1.2"))
    reserved = {**MIG, "deviceIndex": 1}
    for key in ("migUUID", "gpuInstanceID", "computeInstanceID"):
        del reserved[key]
    annotation = json.dumps([MIG, reserved])
    node.tree.pods["pod"].annotations["hami.io/vgpu-mig-allocations"] = annotation
    node.tree.save()
    scrape = node.scrape()
    ((labels, value),) = scrape.samples("hami_mig_device_info")
    assert value == 1
    assert labels == {
        "zone": "vGPU", "namespace": "default", "pod": "pod", "container": "main",
        "vdevice_index": "0", "device_uuid": "GPU-parent", "mig_uuid": "MIG-child",
        "profile": "1g.10gb", "gpu_instance_id": "7", "compute_instance_id": "0",
    }  # fmt: skip
    ((old, _),) = scrape.samples("MigInfo")
    assert set(old) == LEGACY | {"instanceid"}
    assert old["instanceid"] == "7"


@pytest.mark.parametrize(
    "entries",
    [
        [MIG, MIG],
        [{**MIG, "profile": ""}],
        [{key: value for key, value in MIG.items() if key != "gpuInstanceID"}],
    ],
    ids=["duplicate", "incomplete", "half a runtime record"],
)
def test_a_bad_mig_annotation_costs_its_pod_that_metric_only(
    tmp_path: Path, entries: list[object]
) -> None:
    node = Node(tmp_path)
    node.tree.add("bad", "setup", busy("v1.2"), kind="init")
    node.tree.add("bad", "main", busy("v1.2"))
    node.tree.pods["bad"].annotations["hami.io/vgpu-mig-allocations"] = json.dumps(entries)
    node.tree.save()
    scrape = node.scrape()
    assert scrape.samples("hami_mig_device_info") == []
    assert scrape.values("hami_vgpu_memory_used_bytes", device_uuid="GPU-one") == [1123, 1123]
    assert scrape.value("hami_cache_collect_errors") == 1
