"""A monitor on a node where everything happens that a dashboard can show."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from hami_cache import layouts
from hami_cache.testing import CacheBuilder
from hami_cache.testing.nvml import FakeNvml, Gpu
from tests.monitor.node import Running, Scrape, monitor
from tests.slices.simulated import GIB, SimulatedNode, cache

MIB = 1 << 20
DRIVER_ERROR = 999


@contextlib.contextmanager
def rich_node(folder: Path) -> Iterator[Running]:
    """Run the monitor over all layouts, every finding about slices, a dead process and rubbish."""
    node = SimulatedNode(folder)
    for number, layout in enumerate(layouts()):
        busy = CacheBuilder(layout).device("GPU-0", limit=4 * GIB, sm_limit=50)
        busy.process(1, 100 + number, memory=[100 * MIB], sm_util=[10])
        node.tree.add(f"layout-{number}", "main", busy, namespace="team")
        node.process(100 + number, f"layout-{number}")
    used = cache("GPU-0").process(5, 500, memory=[2 * GIB], sm_util=[30]).process(6, 9999)
    node.pod("trainer", "GPU-0", cache=used)
    node.process(500, "trainer", inner=5)
    greedy = cache("GPU-1", limit=GIB).process(7, 700, memory=[2 * GIB], sm_util=[90])
    node.pod("greedy", "GPU-1", cache=greedy)
    node.process(700, "greedy", inner=7)
    node.pod("sliced", "GPU-2", cache=cache("MIG-2").process(8, 800, memory=[GIB]))
    node.partition("sliced", "GPU-2", "MIG-2")
    node.process(800, "sliced", inner=8)
    node.tree.add("broken", "main", b"rubbish" * 1000)
    node.process(1)
    fake = FakeNvml(folder)
    fake.write(
        Gpu("GPU-0", used=3 * GIB, utilization=(70, 20), processes=[(500, GIB)]),
        Gpu("GPU-1", processes=[(700, 2 * GIB)], samples=[(700, 1, 90)]),
        Gpu("GPU-2", mig=1, slices=[Gpu("MIG-2", total=10 * GIB, used=5 * MIB)]),
        Gpu("GPU-3", returns={"nvmlDeviceGetUtilizationRates": [DRIVER_ERROR]}),
    )
    options = (
        "--pods", f"file:{node.tree.pods_json}", "--host-proc", str(node.proc),
        "--legacy-metrics=true", "--board-readings",
    )  # fmt: skip
    environment = {**fake.environment(), "NODE_NAME": node.tree.node}
    with monitor(node.hook_path, *options, environment=environment) as running:
        yield running


def is_settled(scrape: Scrape) -> bool:
    """Whether the loops have run once: then every family has samples."""
    return {"hami_cache_feedback_blocked", "hami_cache_slice_over_limit"} <= set(labels_of(scrape))


def labels_of(scrape: Scrape) -> dict[str, set[str]]:
    """Every name that has samples, with all labels that they carry."""
    found: dict[str, set[str]] = {}
    for line in scrape.text.splitlines():
        if match := re.match(r"(\w+)(?:\{(.*)\})? ", line):
            its = found.setdefault(match[1], set())
            its.update(re.findall(r'(\w+)="(?:\\.|[^"\\])*"', match[2] or ""))
    return found
