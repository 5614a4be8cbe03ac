"""A node under test: caches on disk, a monitor in this process or in one of its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from hami_cache.monitor.buildinfo import build_info
from hami_cache.monitor.collector import ExportOptions, NodeCollector
from hami_cache.monitor.exposition import expose
from hami_cache.node.containers import ContainerTree, Effort
from hami_cache.node.nvml_session import Nvml
from hami_cache.node.pods import FilePods, PodSource
from hami_cache.node.usage import Liveness, UsageReader
from hami_cache.testing import tree as testing_tree

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""(name, sorted labels) -> value."""


def parse(text: str) -> list[Metric]:
    """An exposition, read by prometheus_client's own parser."""
    return list(text_string_to_metric_families(text))


@dataclass
class Scrape:
    """One exposition and ways to ask it."""

    text: str
    families: dict[str, Metric] = field(init=False)

    def __post_init__(self) -> None:
        self.families = {family.name: family for family in parse(self.text)}

    def samples(self, name: str, **labels: str) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of every sample of that name that has these labels."""
        return [
            (sample.labels, sample.value)
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def value(self, name: str, **labels: str) -> float:
        """The one sample of that name and these labels."""
        found = self.samples(name, **labels)
        assert len(found) == 1, f"{name} {labels}: {found}"
        return found[0][1]

    def values(self, name: str, **labels: str) -> list[float]:
        """The values of all samples that match."""
        return [value for _, value in self.samples(name, **labels)]

    def anomalies(self, **labels: str) -> set[str]:
        """The anomaly kinds present."""
        return {found["kind"] for found, _ in self.samples("hami_cache_anomaly", **labels)}


class Node:
    """A node's hook path, and a collector over it in this process."""

    def __init__(
        self,
        root: Path,
        *,
        pods: PodSource | None = None,
        nvml: Nvml | None = None,
        options: ExportOptions | None = None,
        liveness: Liveness | None = None,
        clock: Callable[[], float] = time.time,
        effort: Effort | None = None,
    ) -> None:
        self.tree = testing_tree.container_tree(root)
        self.caches = ContainerTree(root, effort=effort or Effort(seconds=5.0))
        self.pods = pods or FilePods(self.tree.pods_json)
        reader = UsageReader(self.caches, liveness=liveness, hostpids=nvml is not None, clock=clock)
        self.collector = NodeCollector(
            self.caches,
            reader,
            self.pods,
            nvml,
            options or ExportOptions("node-a"),
            build_info(),
            clock=clock,
        )

    def scrape(self) -> Scrape:
        """One scrape."""
        return Scrape(expose(self.collector.collect()).decode())


@dataclass
class Running:
    """A monitor in a process of its own."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    def get(self, path: str, timeout: float = 10) -> tuple[int, str]:
        """Status and body of a page."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def scrape(self) -> Scrape:
        """One scrape over HTTP."""
        status, text = self.get("/metrics")
        assert status == 200
        return Scrape(text)

    def until(self, condition: Callable[[Scrape], bool], timeout: float = 30) -> Scrape:
        """Scrape until something is true."""
        deadline = time.monotonic() + timeout
        while True:
            found = self.scrape()
            if condition(found):
                return found
            assert time.monotonic() < deadline, found.text[-4000:]
            time.sleep(0.05)


@contextlib.contextmanager
def monitor(
    root: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Run ``hami-cache monitor`` on a free port until the block ends."""
    log = root / "monitor.log"
    command = [
        sys.executable, "-c", "import sys; from hami_cache.cli.main import main; sys.exit(main())",
        "monitor", "--metrics-bind-address", "127.0.0.1:0", *arguments,
    ]  # fmt: skip
    variables = {**os.environ, "HOOK_PATH": str(root), **(environment or {})}
    with log.open("w") as stream:
        process = subprocess.Popen(command, stderr=stream, env=variables, text=True)
    try:
        yield Running(process, _port(process, log), log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


def _port(process: subprocess.Popen[str], log: Path) -> int:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if found := re.search(r"listening on port (\d+)\b", log.read_text()):
            return int(found[1])
        assert process.poll() is None, log.read_text()
        time.sleep(0.02)
    raise AssertionError(log.read_text())
