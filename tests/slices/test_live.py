"""The three sources at work: a real driver library, real caches, real files of processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_cache.absent import Absent
from hami_cache.node.containers import ContainerTree
from hami_cache.node.liveness import HostLiveness
from hami_cache.node.nvml_session import Nvml
from hami_cache.node.pods import NoPods, PodView
from hami_cache.node.usage import UsageReader
from hami_cache.slices.findings import Finding
from hami_cache.slices.gaps import gaps
from hami_cache.slices.live import LiveSlices
from hami_cache.slices.section import NOT_MEASURED, Device, Partition, Section, Usage
from hami_cache.testing import Memory
from hami_cache.testing.nvml import FakeNvml, Gpu
from tests.slices.simulated import GIB, SimulatedNode, cache

MIB = 1 << 20
A100 = 80 * GIB


@pytest.fixture
def node(tmp_path: Path) -> SimulatedNode:
    return SimulatedNode(tmp_path)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeNvml]:
    with FakeNvml.loaded(tmp_path) as fake:
        yield fake


@pytest.fixture
def nvml(fake: FakeNvml, tmp_path: Path) -> Iterator[Nvml]:
    with Nvml(lock=tmp_path / "lock", deadline=30.0) as nvml:
        yield nvml


@pytest.fixture
def reader(node: SimulatedNode) -> Iterator[UsageReader]:
    tree = ContainerTree(node.hook_path)
    yield UsageReader(tree)
    tree.close()


def test_three_sources_meet_in_one_section(
    node: SimulatedNode, fake: FakeNvml, nvml: Nvml, reader: UsageReader
) -> None:
    """GPU-0 is measured, GPU-1 poisoned by a host process, GPU-2 cut into partitions.

    The cache of `trainer` says twice as much of GPU-0 as the driver and fills GPU-1. That of
    `sliced` speaks of its partition, which answers for itself.
    """
    trainer = node.pod(
        "trainer",
        "GPU-0",
        "GPU-1",
        cache=cache("GPU-0", "GPU-1").process(5, 500, memory=[2 * GIB, 3 * GIB], sm_util=[11, 33]),
    )
    server = node.pod(
        "server", "GPU-0", cache=cache("GPU-0").process(6, 600, memory=[GIB], sm_util=[20])
    )
    sliced = node.pod("sliced", "GPU-2", cache=cache("MIG-2").process(7, 700, memory=[GIB]))
    node.partition("sliced", "GPU-2", "MIG-2")
    node.process(1)
    node.process(500, "trainer")
    node.process(600, "server")
    fake.write(
        Gpu(
            "GPU-0",
            total=A100,
            processes=[(500, GIB), (600, GIB)],
            samples=[(500, 1, 10), (600, 1, 20)],
        ),
        Gpu("GPU-1", total=A100, processes=[(500, GIB), (1, MIB)], samples=[(500, 1, 10)]),
        Gpu("GPU-2", total=A100, mig=1, slices=[Gpu("MIG-2", total=10 * GIB, used=5 * MIB)]),
    )

    live = LiveSlices(node.pods, nvml=nvml, reader=reader, host_proc=node.proc)
    collected = live.collect(complete=True)

    assert collected.problems == ()
    assert collected.section == Section(
        usages=(
            Usage("nvidia", server, "main", "GPU-0", 1024, 20),
            Usage("nvidia", trainer, "main", "GPU-0", 1024, 10),
            Usage("nvidia", trainer, "main", "GPU-1", 3072, 33),
        ),
        devices=(
            Device("nvidia", "GPU-0", rows_returned=2, rows_attributed=2),
            Device("nvidia", "GPU-1", "no_pod_component", "no_pod_component", 2, 1, 0, 0, 1),
            Device("nvidia", "GPU-2"),
        ),
        partitions=(
            Partition(
                "nvidia", sliced, "main", "GPU-2", "MIG-2", 10240, 5, cores_reason="unsupported"
            ),
        ),
    )
    assert collected.findings == (
        Finding("source_disagreement", trainer, "main", "GPU-0", "memory", 1024, 2048),
        Finding("source_disagreement", sliced, "main", "MIG-2", "memory", 5, 1024),
    )


def test_a_pass_without_the_hosts_proc_asks_for_partitions_only(
    node: SimulatedNode, fake: FakeNvml, nvml: Nvml
) -> None:
    sliced = node.pod("sliced", "GPU-2")
    node.partition("sliced", "GPU-2", "MIG-2")
    fake.write(Gpu("GPU-2", mig=1, slices=[Gpu("MIG-2", total=GIB)]))
    collected = LiveSlices(node.pods, nvml=nvml).collect()
    assert collected.section == Section(
        partitions=(
            Partition("nvidia", sliced, "main", "GPU-2", "MIG-2", 1024, 0,
                      cores_reason="unsupported"),
        )
    )  # fmt: skip
    assert fake.calls("nvmlDeviceGetComputeRunningProcesses_v3") == []


def test_a_driver_that_is_gone_is_named_and_the_card_still_bounds_its_caches(
    node: SimulatedNode, fake: FakeNvml, reader: UsageReader, tmp_path: Path
) -> None:
    pod = node.pod("greedy", "GPU-0", cache=cache("GPU-0").process(5, 500, memory=[2 * GIB]))
    fake.write(Gpu("GPU-0", total=GIB))
    with Nvml(lock=tmp_path / "lock", deadline=30.0, keep_open=False) as nvml:
        live = LiveSlices(node.pods, nvml=nvml, reader=reader, host_proc=node.proc)
        measured = live.collect(complete=True)
        fake.remove()
        blind = live.collect(complete=True)
    assert measured.section == Section(devices=(Device("nvidia", "GPU-0"),))
    assert measured.problems == ()
    assert blind.section == Section(
        usages=(Usage("nvidia", pod, "main", "GPU-0", NOT_MEASURED, 0),),
        devices=(Device("nvidia", "GPU-0", "not_measured", "not_measured"),),
    )
    [problem] = blind.problems
    assert "nvmlInit" in str(problem)


def test_a_silent_cache_is_a_named_absence(node: SimulatedNode, reader: UsageReader) -> None:
    caches = {
        "empty": None,
        "new": cache("GPU-0").not_initialised(),
        "odd": b"no cache at all".ljust(4096, b"."),
        "below": cache("GPU-0").process(5, memory=[Memory(data=GIB, total=2**64 - 1)]),
        "nameless": cache("GPU-0").process(5, memory=[GIB]).set("uuids[0]", b"\xff"),
    }
    uids = {name: node.pod(name, "GPU-0", cache=written) for name, written in caches.items()}
    collected = LiveSlices(node.pods, reader=reader).collect(complete=True)
    reasons = {f.pod_uid: f for f in gaps(collected) if f.figure == "memory"}
    assert {name: reasons[uid].cache for name, uid in uids.items()} == {
        "empty": Absent("no_cache"),
        "new": Absent("not_initialised"),
        "odd": Absent("unknown_layout"),
        "below": Absent("counter_underflow"),
        "nameless": Absent("uuid_unreadable"),
    }
    assert {finding.driver for finding in reasons.values()} == {Absent("no_section")}


def test_the_dead_are_left_out_and_where_all_are_dead_there_is_no_figure(
    node: SimulatedNode,
) -> None:
    two = cache("GPU-0").process(5, 500, memory=[GIB]).process(6, 600, memory=[GIB])
    some = node.pod("some", "GPU-0", cache=two)
    none = node.pod("none", "GPU-0", cache=cache("GPU-0").process(7, 700, memory=[GIB]))
    node.process(500, "some", inner=5)
    tree = ContainerTree(node.hook_path)
    reader = UsageReader(tree, liveness=HostLiveness(node.proc))
    collected = LiveSlices(node.pods, reader=reader).collect(complete=True)
    tree.close()
    assert collected.section is not None
    assert [(u.pod_uid, u.memory_used_mib) for u in collected.section.usages] == [(some, 1024)]
    assert {(f.pod_uid, f.cache) for f in gaps(collected)} == {(none, Absent("stale_process"))}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_cache_does_not_outlive_its_pod(
    node: SimulatedNode, reader: UsageReader, phase: str
) -> None:
    for name in ("over", "gone", "there"):
        node.pod(name, "GPU-0", cache=cache("GPU-0").process(5, memory=[GIB]))
    there = node.uid("there")
    node.tree.pods["over"].phase = phase
    del node.tree.pods["gone"]
    node.tree.save()
    section = LiveSlices(node.pods, reader=reader).collect(complete=True).section
    assert section is not None
    assert [usage.pod_uid for usage in section.usages] == [there]


def test_nothing_is_measured_before_the_pods_are_known(
    node: SimulatedNode, reader: UsageReader
) -> None:
    node.pod("trainer", "GPU-0", cache=cache("GPU-0").process(5, memory=[GIB]))

    class Syncing(NoPods):
        def view(self) -> PodView:
            return PodView()

    collected = LiveSlices(Syncing(), reader=reader).collect(complete=True)
    assert collected.section is None
    assert [str(p) for p in collected.problems] == [
        "the list of the node's pods is not complete yet"
    ]


def test_without_a_source_of_pods_the_caches_speak_under_their_directories(
    node: SimulatedNode, nvml: Nvml, reader: UsageReader
) -> None:
    uid = node.pod("trainer", cache=cache("GPU-0").process(5, memory=[GIB]))
    live = LiveSlices(NoPods(), nvml=nvml, reader=reader, host_proc=node.proc)
    collected = live.collect(complete=True)
    assert collected.section is not None
    assert [(u.pod_uid, u.memory_used_mib) for u in collected.section.usages] == [(uid, 1024)]
    [problem] = collected.problems
    assert "which cards they hold" in str(problem)


def test_a_missing_root_is_no_idle_node(tmp_path: Path) -> None:
    reader = UsageReader(ContainerTree(tmp_path / "elsewhere"))
    collected = LiveSlices(NoPods(), reader=reader).collect()
    assert collected.section is None
    assert "no container directories" in str(collected.problems[0])


def test_passes_do_not_overlap(node: SimulatedNode) -> None:
    class Pods(NoPods):
        inside = most = 0

        def view(self) -> PodView:
            self.inside += 1
            self.most = max(self.most, self.inside)
            time.sleep(0.001)
            self.inside -= 1
            return super().view()

    pods = Pods()
    live = LiveSlices(pods)
    threads = [threading.Thread(target=live.collect) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pods.most == 1
