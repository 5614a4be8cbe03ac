"""What a scrape costs inside the server, and what the commands cost as whole processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import caches
from hami_cache.monitor.buildinfo import build_info
from hami_cache.monitor.collector import ExportOptions, NodeCollector
from hami_cache.monitor.exposition import expose
from hami_cache.node.containers import ContainerTree
from hami_cache.node.pods import NoPods
from hami_cache.node.usage import UsageReader

DEVICES = SLOTS = 8


@pytest.fixture
def collector(tmp_path: Path) -> NodeCollector:
    """A node of 100 containers with 8 devices and 8 processes each."""
    for number in range(caches.CONTAINERS):
        folder = tmp_path / "containers" / f"uid-{number:03}_main"
        folder.mkdir(parents=True)
        caches.build(folder, DEVICES, SLOTS, "x")
    tree = ContainerTree(tmp_path)
    made = NodeCollector(
        tree, UsageReader(tree), NoPods(), None, ExportOptions("node"), build_info()
    )
    made.reading(complete=True)
    return made


def samples(text: str) -> set[tuple[str, tuple[tuple[str, str], ...], float]]:
    return {
        (sample.name, tuple(sorted(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(text)
        if family.name.startswith("hami_vgpu")
        for sample in family.samples
    }


@pytest.mark.parametrize("peer", ["hami-cache", "prometheus_client"])
def test_scrape(benchmark: BenchmarkFixture, collector: NodeCollector, peer: str) -> None:
    def ours() -> bytes:
        return expose(collector.collect())

    def theirs() -> bytes:
        return generate_latest(collector)

    assert samples(ours().decode()) == samples(theirs().decode())
    benchmark.group = "scrape of 100 containers x 8 devices, read and written out"
    benchmark.extra_info["peer"] = peer
    benchmark(ours if peer == "hami-cache" else theirs)


@pytest.mark.parametrize("command", ["identify", "--help", "inspect --json"])
def test_whole_process(benchmark: BenchmarkFixture, tmp_path: Path, command: str) -> None:
    case = caches.build(tmp_path, DEVICES, SLOTS)
    program = str(Path(sys.executable).with_name("hami-cache"))
    arguments = [program, *command.split(), *([] if command == "--help" else [str(case.path)])]
    first = subprocess.run(arguments, capture_output=True, check=True)
    assert first.stdout
    benchmark.group = f"hami-cache {command}, whole process"
    benchmark.extra_info["peer"] = "hami-cache"
    benchmark.pedantic(
        subprocess.run, (arguments,), {"capture_output": True, "check": True}, rounds=10
    )
