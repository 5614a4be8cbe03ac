"""A real Prometheus scrapes a real monitor process and answers the queries that dashboards ask."""

from __future__ import annotations

import http.server
import subprocess
import threading
from collections.abc import Iterator

import pytest

from hami_cache import layouts
from hami_cache.testing import CacheBuilder, container_tree
from hami_cache.testing.nvml import FakeNvml, Gpu
from tests.monitor.node import Running, monitor
from tests.monitor.prometheus import Prometheus, program, prometheus_with

SCHEDULER = b"""# TYPE hami_gpu_memory_limit_bytes gauge
hami_gpu_memory_limit_bytes{node="node-a",device_uuid="GPU-a",device_index="0"} 1000
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A monitor with containers of all layouts, two cards and legacy names."""
    root = tmp_path_factory.mktemp("node")
    tree = container_tree(root)
    for number, layout in enumerate(layouts()):
        builder = CacheBuilder(layout).device("GPU-a", limit=4 << 30, sm_limit=50)
        builder.process(1, memory=[(1 << 20) * (number + 1)], sm_util=[10], monitorused=[5])
        tree.add(f"pod-{number}", "main", builder, namespace="team")
    tree.add("broken", "main", b"rubbish" * 1000)
    fake = FakeNvml(root)
    fake.write(Gpu(uuid="GPU-a", used=9 << 20, utilization=(70, 20)), Gpu(uuid="GPU-b"))
    environment = {**fake.environment(), "NODE_NAME": "node-a"}
    arguments = ("--pods", f"file:{tree.pods_json}", "--legacy-metrics=true")
    with monitor(root, *arguments, environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def scheduler() -> Iterator[int]:
    """A page with the scheduler's metrics, which upstream's dashboard joins ours with."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(SCHEDULER)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(scope="module")
def prometheus(
    node: Running, scheduler: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    targets = [f"127.0.0.1:{node.port}", f"127.0.0.1:{scheduler}"]
    jobs = [
        {"job_name": name, "honor_labels": True, "static_configs": [{"targets": [target]}]}
        for name, target in zip(("monitor", "scheduler"), targets, strict=True)
    ]
    with prometheus_with({"scrape_configs": jobs}, folder) as running:
        running.until('up{job="monitor"} == 1')
        running.until('up{job="scheduler"} == 1')
        yield running


def test_promtool_finds_nothing_wrong_with_our_own_names(node: Running) -> None:
    promtool = program("promtool")
    _, text = node.get("/metrics")
    legacy = ("HostGPUMemoryUsage", "HostCoreUtilization", "vGPU_", "Device_", "MigInfo")
    lines = [
        line
        for line in text.splitlines(keepends=True)
        if not line.removeprefix("# HELP ").removeprefix("# TYPE ").startswith(legacy)
    ]
    check = subprocess.run(
        [promtool, "check", "metrics"], input="".join(lines), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert check.returncode == 0, check.stderr
    assert check.stderr == ""


def test_the_whole_exposition_is_scraped(prometheus: Prometheus, node: Running) -> None:
    scraped = prometheus.until('scrape_samples_scraped{job="monitor"} > 0')
    _, text = node.get("/metrics")
    samples = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert abs(int(scraped[0]["value"][1]) - len(samples)) < 10


# The questions of upstream's dashboard about hosts and containers, in PromQL of our own.
PANELS = {
    "host memory": "hami_host_gpu_memory_used_bytes and on (device_uuid) "
    'hami_gpu_memory_limit_bytes{node=~"node-a"}',
    "host utilization": "hami_host_gpu_utilization_ratio and on (device_uuid) "
    'hami_gpu_memory_limit_bytes{node=~"node-a"}',
    "memory controller": "hami_host_gpu_memory_controller_utilization_ratio",
    "container memory": 'hami_vgpu_memory_used_bytes{namespace=~"team", pod=~".+"}',
    "container memory share": "100 * hami_vgpu_memory_used_bytes / hami_vgpu_memory_limit_bytes",
    "container utilization": 'hami_container_device_utilization_ratio{namespace=~"team"}',
    "container breakdown": "hami_vgpu_memory_context_bytes + hami_vgpu_memory_module_bytes + "
    "hami_vgpu_memory_buffer_bytes",
    "last kernel": "hami_container_last_kernel_elapsed_seconds",
    "top pods": "topk(3, sum by (namespace, pod) (hami_container_device_memory_bytes))",
    "legacy container memory": "vGPU_device_memory_usage_in_bytes / "
    "vGPU_device_memory_limit_in_bytes",
    "legacy host": 'HostGPUMemoryUsage{nodeid="node-a"} * on (deviceuuid) HostCoreUtilization',
    "legacy breakdown": "sum by (podname) (Device_memory_desc_of_container)",
}


@pytest.mark.parametrize("panel", PANELS)
def test_dashboards_find_their_series(prometheus: Prometheus, panel: str) -> None:
    assert prometheus.until(PANELS[panel])


def test_figures_arrive_as_they_are(prometheus: Prometheus) -> None:
    prometheus.until("hami_vgpu_memory_used_bytes")
    found = {
        result["metric"]["pod"]: int(result["value"][1])
        for result in prometheus.query("hami_vgpu_memory_used_bytes")
    }
    assert found == {f"pod-{n}": (1 << 20) * (n + 1) for n in range(len(layouts()))}
    assert prometheus.query('hami_cache_anomaly{pod="broken"}')


def test_a_real_pages_end_to_end(node: Running) -> None:
    assert node.get("/healthz") == (200, "ok\n")
    assert node.get("/readyz") == (200, "ok\n")
    status, page = node.get("/")
    assert status == 200
    assert "pod-0" in page
    assert "broken" in page
    assert node.get("/slices")[0] == 200, node.log.read_text()
    assert node.get("/nowhere")[0] == 404
