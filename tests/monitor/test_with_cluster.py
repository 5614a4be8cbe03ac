"""The whole monitor against a real API server double: J1, C5, and what it costs in memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_cache.testing import CacheBuilder, container_tree
from hami_cache.testing.nvml import FakeNvml, Gpu
from hami_cache.testing.tree import ContainerTree
from tests.monitor.node import Running, Scrape, monitor
from tests.node.api_server import ApiServer, refuse, when

USED = "hami_vgpu_memory_used_bytes"
CONTAINERS = 100
SCRAPES = 10_000 if os.environ.get("HAMI_CACHE_SOAK") else 200
MIB = 1 << 20


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


def full_node(root: Path, api: ApiServer) -> ContainerTree:
    """A node of 100 containers with 8 devices and 8 processes each, and pods of another node."""
    tree = container_tree(root)
    builder = CacheBuilder("v1.2")
    for _ in range(8):
        builder.device()
    for pid in range(8):
        builder.process(100 + pid, memory=[MIB] * 8, sm_util=[1] * 8, monitorused=[MIB] * 8)
    for number in range(CONTAINERS):
        tree.add(f"pod-{number}", "main", builder)
    for pod in tree.pods.values():
        api.add(pod.to_json())
    return tree


def start(root: Path, api: ApiServer) -> dict[str, str]:
    fake = FakeNvml(root)
    fake.write(*(Gpu(uuid=f"GPU-{number}") for number in range(8)))
    kubeconfig = api.kubeconfig(root / "kubeconfig")
    return {**fake.environment(), "NODE_NAME": "node-a", "KUBECONFIG": str(kubeconfig)}


def complete(scrape: Scrape) -> bool:
    return len(scrape.samples(USED)) == 8 * CONTAINERS


def resident(running: Running) -> int:
    """Resident bytes of the monitor's process."""
    pages = Path(f"/proc/{running.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")


@pytest.mark.soak
def test_j1_scrapes_cost_no_list_and_memory_stays_small_and_flat(
    tmp_path: Path, api: ApiServer
) -> None:
    full_node(tmp_path, api)
    with monitor(tmp_path, environment=start(tmp_path, api)) as running:
        scrape = running.until(complete)
        assert scrape.value("hami_cache_pods_source_up") == 1
        for _ in range(50):
            running.get("/metrics")
        lists, before = len(api.lists), resident(running)
        for _ in range(SCRAPES):
            running.get("/metrics")
        assert len(api.lists) == lists
        assert "spec.nodeName=node-a" in api.lists[0].query["fieldSelector"].replace("%3D", "=")
        assert resident(running) < 64 * MIB
        assert resident(running) - before < 4 * MIB


def test_c5_metrics_go_on_and_nothing_is_removed_when_the_api_fails(
    tmp_path: Path, api: ApiServer
) -> None:
    tree = full_node(tmp_path, api)
    environment = {**start(tmp_path, api), "HAMI_RESYNC_INTERVAL": "1s"}
    for directory in tree.containers.iterdir():
        os.utime(directory, (1, 1))
    with monitor(tmp_path, environment=environment) as running:
        running.until(complete)
        api.lose_everything()
        api.on_list(*[refuse(500)] * 3)
        api.drop_watches()
        for _ in range(30):  # while the garbage collection runs, once a second
            assert complete(running.scrape())
        assert len(list(tree.containers.iterdir())) == CONTAINERS


def test_readiness_waits_for_the_first_list(tmp_path: Path, api: ApiServer) -> None:
    tree = container_tree(tmp_path)
    tree.add("pod", "main", CacheBuilder("v1.2").process(1, memory=[5]))
    api.add(tree.pods["pod"].to_json())
    environment = start(tmp_path, api)
    answer = threading.Event()
    api.on_list(when(answer, refuse(503)))
    with monitor(tmp_path, environment=environment) as running:
        assert running.get("/readyz")[0] == 503
        assert running.scrape().value("hami_cache_containers", state="pods_not_synced") == 1
        answer.set()
        running.until(lambda scrape: bool(scrape.samples(USED)))
        assert running.get("/readyz")[0] == 200
