"""A scan of 10,000 real-size sparse files on all cores: files a second, and memory that stays flat.

The target is 2,000 files a second on two cores. The peer is doctor, which examines the same files
one after the other; that both say the same is asserted first.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from multiprocessing import active_children
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from hami_cache.forensics.anomalies import Circumstances, diagnose
from hami_cache.forensics.scan_content import Content, squeeze
from hami_cache.forensics.scan_examine import Settings
from hami_cache.forensics.scan_run import find, scan
from hami_cache.testing import CacheBuilder, Memory

FILES = 10_000
NODES = 50
NOW = 1_800_000_000.0
SETTINGS = Settings(NOW)
GROUP = f"scan of {FILES:,} files of 1.2 to 2 MB"

SHAPES = ((1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (4, 4), (8, 1), (8, 8))
"""Devices and processes of a container, the usual ones first."""

WEIGHTS = (8, 6, 3, 4, 2, 2, 2, 1)


def contents() -> list[Content]:
    """Some contents to choose from, of every layout and shape."""
    made = []
    for layout in ("v0", "v1", "v1-sem", "v1.2"):
        for (devices, processes), weight in zip(SHAPES, WEIGHTS, strict=True):
            builder = CacheBuilder(layout)
            for _ in range(devices):
                builder.device()
            for pid in range(1, processes + 1):
                memory = [Memory(context=300 << 20, data=pid << 28)] * devices
                builder.process(pid, memory=memory, sm_util=[7] * devices)
            made += [squeeze(builder.build())] * weight
    return made


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fleet")
    chosen = random.Random(7).choices(contents(), k=FILES)
    for index, content in enumerate(chosen):
        folder = root / f"node{index % NODES:03}" / f"{index:08}-uid_main"
        folder.mkdir(parents=True)
        with (folder / "x.cache").open("wb") as file:
            file.truncate(content.size)
            for offset, piece in content.extents:
                file.seek(offset)
                file.write(piece)
    return root


def megabytes() -> float:
    """What this process and those of the scan have in memory, in MiB."""
    pids = [os.getpid(), *(child.pid for child in active_children())]
    pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def scanned(root: Path, processes: int | None) -> tuple[Counter[str], list[float]]:
    """Verdicts and kinds of anomalies, and the memory after every tenth of the files."""
    counts: Counter[str] = Counter()
    memory = []
    for index, row in enumerate(scan(find([str(root)], SETTINGS.choice), SETTINGS, processes), 1):
        counts.update([row.verdict, *row.anomalies])
        if index % (FILES // 10) == 0:
            memory.append(megabytes())
    return counts, memory


def doctored(root: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for place in find([str(root)], SETTINGS.choice):
        found = diagnose(place.name, Circumstances(NOW), engine="numpy")
        counts.update([found.verdict, *{finding.anomaly.kind for finding in found.findings}])
    return counts


def test_scan(benchmark: BenchmarkFixture, fleet: Path) -> None:
    benchmark.group, benchmark.extra_info["peer"] = GROUP, "hami-cache"
    counts, memory = benchmark.pedantic(scanned, (fleet, None), rounds=3, warmup_rounds=1)
    assert counts == doctored(fleet)
    benchmark.extra_info["files a second"] = round(FILES / benchmark.stats.stats.median)
    benchmark.extra_info["MiB after each tenth"] = [round(value) for value in memory]
    print(benchmark.extra_info)


def test_scan_in_one_process(benchmark: BenchmarkFixture, fleet: Path) -> None:
    benchmark.group, benchmark.extra_info["peer"] = GROUP, "hami-cache, one process"
    benchmark.pedantic(scanned, (fleet, 1), rounds=1)


def test_doctor(benchmark: BenchmarkFixture, fleet: Path) -> None:
    benchmark.group, benchmark.extra_info["peer"] = GROUP, "doctor, one file after the other"
    benchmark.pedantic(doctored, (fleet,), rounds=1)
