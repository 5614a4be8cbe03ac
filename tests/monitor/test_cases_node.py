"""Public reports about node monitors, groups C, D, E, H and K: each row is one test."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

from hami_cache.monitor.collector import ExportOptions
from hami_cache.node.attribution import Attributor, PodIndex, proc_reader
from hami_cache.node.liveness import HostLiveness
from hami_cache.node.pods import NoPods, Pod, PodView
from hami_cache.testing import CacheBuilder
from tests.monitor.node import Node

USED = "hami_vgpu_memory_used_bytes"
LIMIT = "hami_vgpu_memory_limit_bytes"
SM = "hami_container_device_utilization_ratio"


def cache(total: int, *, uuid: str = "GPU-a", sm: int = 3, **process: int) -> CacheBuilder:
    builder = CacheBuilder("v1.2").device(uuid, limit=4 << 30, sm_limit=50)
    return builder.process(1, memory=[total], sm_util=[sm], monitorused=[total], **process)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a3_old_and_new_layouts_live_side_by_side(node: Node) -> None:
    for layout in ("v0", "v0-legacy", "v1", "v1-sem", "v1.2"):
        builder = CacheBuilder(layout).device("GPU-a").process(1, memory=[11])
        node.tree.add(f"pod-{layout}", "main", builder)
    assert node.scrape().values(USED) == [11] * 5


def test_a8_a_device_without_uuid_is_skipped_and_picked_up_later(node: Node) -> None:
    builder = CacheBuilder("v1.2").device("GPU-a").device("GPU-b")
    builder.process(1, memory=[1, 2], sm_util=[3, 4])
    whole = builder.build()
    ref = builder.layout.field("uuids[0]")
    path = node.tree.add("pod", "main", builder.patch(ref.offset, bytes(ref.size)))
    scrape = node.scrape()
    assert [labels["device_uuid"] for labels, _ in scrape.samples(USED)] == ["GPU-b"]
    assert scrape.anomalies() == {"uuid_unreadable"}
    with path.open("r+b") as file:
        file.write(whole)
    scrape = node.scrape()
    assert [labels["device_uuid"] for labels, _ in scrape.samples(USED)] == ["GPU-a", "GPU-b"]
    assert scrape.anomalies() == set()


@pytest.mark.parametrize("content", [b"", bytes(2008953)], ids=["no bytes", "all zero"])
def test_a10_a_file_is_adopted_once_it_is_initialised(node: Node, content: bytes) -> None:
    path = node.tree.add("pod", "main", content)
    scrape = node.scrape()
    assert scrape.value("hami_cache_state", state="not_initialised") == 1
    assert scrape.anomalies() == {"not_initialised"}
    with path.open("r+b") as file:
        file.write(cache(5).build())
    assert node.scrape().values(USED) == [5]


def test_a12_a_limit_of_zero_is_unset_and_divides_nothing(node: Node) -> None:
    builder = CacheBuilder("v1.2").device("GPU-a", limit=0).process(1, memory=[2 << 30])
    node.tree.add("pod", "main", builder)
    scrape = node.scrape()
    assert scrape.values(LIMIT) == [0]
    assert "limit_unset" in scrape.anomalies()


def test_b1_b2_only_live_slots_below_proc_num_count(node: Node) -> None:
    builder = cache(100).process(2, status=0, memory=[900])
    builder.process(3, memory=[7 << 30], index=5).set("proc_num", 2)
    node.tree.add("pod", "main", builder)
    assert node.scrape().values(USED) == [100]


def test_b4_usage_over_the_limit_is_shown_as_it_is(node: Node) -> None:
    node.tree.add("pod", "main", cache(5 << 30))
    scrape = node.scrape()
    assert scrape.values(USED) == [5 << 30]
    assert scrape.values(LIMIT) == [4 << 30]
    assert "over_limit" in scrape.anomalies()


def proc(root: Path, pid: int, inner: int, start_ticks: int = 0) -> None:
    """A process of a made-up host."""
    folder = root / str(pid)
    folder.mkdir(parents=True)
    (folder / "status").write_text(f"Name:\tpython\nState:\tS (sleeping)\nNSpid:\t{pid}\t{inner}\n")
    fields = " ".join(["S", *["0"] * 18, str(start_ticks)])
    (folder / "stat").write_text(f"{pid} (python) {fields}\n")


def test_b6_dead_and_reused_processes_are_left_out_with_the_hosts_proc(tmp_path: Path) -> None:
    host = tmp_path / "proc"
    host.mkdir()
    (host / "stat").write_text("btime 1000\n")
    proc(host, 501, inner=1)
    proc(host, 503, inner=99)  # the number was used again, by another process
    proc(host, 504, inner=4, start_ticks=10**12)  # started long after the file was last touched
    node = Node(tmp_path, liveness=HostLiveness(host))
    builder = CacheBuilder("v1.2").device("GPU-a")
    for pid, hostpid in ((1, 501), (2, 502), (3, 503), (4, 504), (5, 0), (6, 6)):
        builder.process(pid, hostpid, memory=[10**pid])
    node.tree.add("pod", "main", builder)
    scrape = node.scrape()
    # 1 lives; of 5 and 6 the host pid was never found out, so nobody knows, and they count.
    assert scrape.values(USED) == [10**1 + 10**5 + 10**6]
    assert scrape.value("hami_cache_processes", state="dead") == 3
    assert "dead_process" in scrape.anomalies()
    without = Node(tmp_path)
    without.tree.add("pod", "main", builder)
    assert without.scrape().values(USED) == [1111110]


def test_b7_several_live_caches_of_one_container_are_one_sum(node: Node) -> None:
    node.tree.add("pod", "main", cache(1 << 30), file="a.cache")
    node.tree.add("pod", "main", cache(2 << 30), file="b.cache")
    scrape = node.scrape()
    assert scrape.values(USED) == [3 << 30]
    assert scrape.values(LIMIT) == [4 << 30]


def test_c1_other_names_are_skipped_once_and_never_removed(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("lost+found", "foo", "_x", "uid_", ".tmp"):
        (node.tree.containers / name).mkdir()
    (node.tree.containers / "uid_file").touch()
    node.tree.add("pod", "main", cache(5))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            scrape = node.scrape()
    assert scrape.values(USED) == [5]
    assert scrape.value("hami_cache_skipped_entries") == 6
    warnings = [record.getMessage() for record in caplog.records if "skipping" in record.msg]
    assert len(warnings) == len(set(warnings)) == 6


def test_c2_only_regular_files_that_end_in_cache_count(node: Node) -> None:
    directory = node.tree.add("pod", "main", cache(5)).parent
    (directory / "notes.txt").write_text("x")
    cache(7).write(directory / "x.cache.bak")
    (directory / "libvgpu.so.1").touch()
    (directory / "libvgpu.so").touch()
    (directory / "y.cache").mkdir()
    scrape = node.scrape()
    assert scrape.values(USED) == [5]
    assert scrape.anomalies() == {"cache_ignored"}


def test_c3_a_stale_cache_beside_a_live_one_is_named_and_ignored(node: Node) -> None:
    stale = node.tree.add("pod", "main", cache(9, status=0), file="a.cache")
    os.utime(stale, (1, 1))
    node.tree.add("pod", "main", cache(5), file="b.cache")
    scrape = node.scrape()
    assert scrape.values(USED) == [5]
    assert scrape.anomalies() == {"cache_ignored"}


def test_c7_a_pod_that_ended_is_not_exported(node: Node) -> None:
    node.tree.add("done", "main", cache(5), phase="Succeeded")
    node.tree.add("failed", "main", cache(5), phase="Failed")
    node.tree.add("looping", "main", cache(6))
    scrape = node.scrape()
    assert scrape.values(USED) == [6]
    assert scrape.value("hami_cache_containers", state="pod_ended") == 2


def test_c8_what_is_gone_from_the_disk_is_forgotten(node: Node) -> None:
    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count(str(node.tree.root))

    for round_ in range(1000):
        path = node.tree.containers / f"uid-{round_ % 3}_main"
        path.mkdir()
        (path / "x.cache").write_bytes(cache(5).build())
        node.caches.refresh(complete=True)
        assert mapped() == 1
        shutil.rmtree(path)
    descriptors = len(os.listdir("/proc/self/fd"))
    node.caches.refresh()
    assert mapped() == 0
    assert len(os.listdir("/proc/self/fd")) == descriptors - 1
    assert not node.caches.containers


@pytest.mark.parametrize("shape", ["containers", "vgpu/containers"])
def test_c11_both_root_shapes_are_found(tmp_path: Path, shape: str) -> None:
    node = Node(tmp_path / "made")
    node.tree.add("pod", "main", cache(5))
    (tmp_path / "hook" / shape).parent.mkdir(parents=True)
    node.tree.containers.rename(tmp_path / "hook" / shape)
    moved = Node(tmp_path / "other", pods=node.pods)
    moved.caches._hook_path = tmp_path / "hook"
    scrape = moved.scrape()
    assert scrape.values(USED) == [5]
    assert scrape.value("hami_cache_root_found") == 1


def test_c11_a_missing_root_is_reported_and_not_fatal(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.tree.containers.rmdir()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert node.scrape().value("hami_cache_root_found") == 0
    assert sum("no container directories" in r.getMessage() for r in caplog.records) == 1
    node.tree.containers.mkdir()
    node.tree.add("pod", "main", cache(5))
    assert node.scrape().values(USED) == [5]


def test_d1_all_three_lists_of_containers_match(node: Node) -> None:
    node.tree.add("pod", "setup", cache(1), kind="init")
    node.tree.add("pod", "main", cache(2), kind="regular")
    node.tree.add("pod", "debug", cache(3), kind="ephemeral")
    scrape = node.scrape()
    found = {labels["container"]: value for labels, value in scrape.samples(USED)}
    assert found == {"setup": 1, "main": 2, "debug": 3}


def test_d2_a_container_the_pod_does_not_list_is_exported_under_its_directory(node: Node) -> None:
    node.tree.add("pod", "a", cache(5), kind="init")
    del node.tree.pods["pod"].containers["a"]
    node.tree.save()
    ((labels, value),) = node.scrape().samples(USED)
    assert (labels["pod"], labels["container"], value) == ("pod", "a", 5)


def test_d3_an_empty_directory_has_a_state_and_no_figures(node: Node) -> None:
    node.tree.add("pod", "main")
    scrape = node.scrape()
    assert scrape.value("hami_cache_state", pod="pod", state="empty") == 1
    assert scrape.samples(USED) == []
    assert scrape.anomalies() == set()


def test_d5_the_directory_alone_names_the_pod_no_label_is_needed(node: Node) -> None:
    node.tree.add("pod", "main", cache(5))
    assert node.tree.pods["pod"].labels == {}
    assert node.scrape().values(USED, pod="pod") == [5]


def test_d5_nothing_is_exported_before_the_first_pod_list(tmp_path: Path) -> None:
    class Waiting(NoPods):
        def view(self) -> PodView:
            return PodView()

    node = Node(tmp_path, pods=Waiting())
    node.tree.add("pod", "main", cache(5))
    scrape = node.scrape()
    assert scrape.samples(USED) == []
    assert scrape.value("hami_cache_containers", state="pods_not_synced") == 1
    assert scrape.value("hami_cache_pods_source_up") == 0


def test_k2_without_a_source_of_pods_the_uid_is_the_name(tmp_path: Path) -> None:
    node = Node(tmp_path, pods=NoPods())
    node.tree.add("pod", "main", cache(5))
    ((labels, _),) = node.scrape().samples(USED)
    assert labels["pod"] == node.tree.pods["pod"].uid
    assert labels["namespace"] == ""
    assert labels["container"] == "main"


def test_h1_utilization_is_a_documented_sum_and_over_100_is_named(node: Node) -> None:
    builder = cache(1, sm=80).process(2, memory=[1], sm_util=[70], monitorused=[1])
    node.tree.add("pod", "main", builder)
    scrape = node.scrape()
    assert scrape.values(SM) == [150]
    assert "utilization_over_100" in scrape.anomalies()
    assert "sum" in scrape.families[SM].documentation


@pytest.mark.parametrize("switch", [0, 1])
@pytest.mark.parametrize("sm_limit", [0, 50, 100])
def test_h3_measured_zero_is_told_from_never_measured(
    node: Node, sm_limit: int, switch: int
) -> None:
    builder = CacheBuilder("v1.2", utilization_switch=switch)
    builder.device("GPU-a", sm_limit=sm_limit).process(1, 900, memory=[1 << 20])
    node.tree.add("pod", "main", builder)
    measured = sm_limit == 50 and switch == 1
    scrape = node.scrape()
    assert scrape.values(SM) == ([0] if measured else [])
    assert ("utilization_not_measured" in scrape.anomalies()) is not measured


def test_h2_a_process_without_host_pid_is_not_measured(node: Node) -> None:
    builder = CacheBuilder("v1.2").device("GPU-a", sm_limit=50).process(1, 0, memory=[1 << 20])
    node.tree.add("pod", "main", builder)
    scrape = node.scrape()
    assert scrape.samples(SM) == []
    assert {"utilization_not_measured", "hostpid_unknown"} <= scrape.anomalies()


def test_a_mixed_file_has_no_figures_and_says_so(node: Node) -> None:
    old = CacheBuilder("v1").device("GPU-a").process(1, memory=[5])
    new = CacheBuilder("v1.2").device("GPU-a").process(2, memory=[7], index=1)
    content, other = bytearray(old.build()), new.build()
    start = old.layout.field("procs[1]").offset
    size = old.layout.field("procs[1]").size
    content[start : start + size] = other[start : start + size]
    proc_num = old.layout.field("proc_num").offset
    content[proc_num : proc_num + 4] = (2).to_bytes(4, "little")
    node.tree.add("pod", "main", bytes(content))
    scrape = node.scrape()
    assert scrape.samples(USED) == []
    assert "layout_mixed" in scrape.anomalies()
    assert scrape.value("hami_cache_state", state="mixed") == 1


def test_e7_the_vdevice_index_is_the_containers_own(node: Node) -> None:
    node.tree.add("pod", "main", cache(5, uuid="GPU-at-index-5-of-the-host"))
    ((labels, _),) = node.scrape().samples(USED)
    assert labels["vdevice_index"] == "0"
    assert labels["device_uuid"] == "GPU-at-index-5-of-the-host"


def test_e3_a_wrong_node_name_drops_no_series(tmp_path: Path) -> None:
    from hami_cache.node.pods import FilePods

    made = Node(tmp_path)
    made.tree.add("pod", "main", cache(5))
    wrong = Node(
        tmp_path,
        pods=FilePods(made.tree.pods_json, "another-node"),
        options=ExportOptions("another-node"),
    )
    wrong.tree.add("pod", "main", cache(5))
    wrong.pods = FilePods(wrong.tree.pods_json, "another-node")
    ((labels, value),) = wrong.scrape().samples(USED)
    assert value == 5
    assert labels["pod"] == wrong.tree.pods["pod"].uid


def test_h5_host_pids_lead_to_pods_through_nested_pid_namespaces(tmp_path: Path) -> None:
    host = tmp_path / "proc"
    host.mkdir()
    (host / "stat").write_text("btime 1000\n")
    node = Node(tmp_path, liveness=HostLiveness(host))
    # Docker inside the container: its process 1 is 20 in the container and 500 on the host.
    proc(host, 500, inner=1)
    status = (host / "500" / "status").read_text().replace("500\t1", "500\t20\t1")
    (host / "500" / "status").write_text(status)
    node.tree.add("pod", "main", cache(5, hostpid=500))
    assert node.scrape().values(USED) == [5]
    pod = node.tree.pods["pod"]
    pod.annotations["hami.io/vgpu-devices-allocated"] = "GPU-a,NVIDIA,1,0:;"
    container = pod.container_id("main")
    group = f"0::/kubepods/burstable/pod{pod.uid}/{container}\n"
    (host / "500" / "cgroup").write_text(group)
    (host / "500" / "comm").write_text("python\n")
    index = PodIndex.of([Pod.from_json(pod.to_json())])
    found = Attributor(index, proc_reader(host)).resolve([500])[500]
    assert (found.pod_uid, found.container_id) == (pod.uid, container)
