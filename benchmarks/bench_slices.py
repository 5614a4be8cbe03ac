"""The slices of a large node: 256 cards, 4096 process rows, aggregated and written as JSON.

The target is 30 ms. What is measured is compared first with the answer of a plain program that does
the sums with dictionaries and leaves the writing to the json module.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from hami_cache.node.attribution import Attribution
from hami_cache.node.hami import HAMI_ANNOTATION
from hami_cache.node.pods import Pod, PodContainer
from hami_cache.node.rows import DeviceRows, ProcessRow
from hami_cache.slices.aggregate import aggregate
from hami_cache.slices.charges import Charge
from hami_cache.slices.collect import Sources, collect
from hami_cache.slices.sectionjson import to_json

DEVICES = 256
ROWS = 4096
PODS = 64
MIB = 1 << 20
HOST_PID = 1

Row = tuple[str, int, int, int, int]
"""Card, pid, pod, bytes, percent."""


def card(number: int) -> str:
    return f"GPU-{number:08d}-0000-4000-8000-000000000000"


def pod_uid(number: int) -> str:
    return f"{number:08d}-1111-4111-8111-111111111111"


def container_id(number: int) -> str:
    return f"{number:064x}"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Sixteen rows on each card, of sixteen pods; no two rows share a process."""
    return [
        (card(i % DEVICES), 1000 + i, (i // DEVICES + i % DEVICES) % PODS, (i % 900) * MIB, i % 7)
        for i in range(ROWS)
    ]


@pytest.fixture(scope="module")
def cards(rows: Sequence[Row]) -> list[DeviceRows]:
    by_card: defaultdict[str, list[ProcessRow]] = defaultdict(list)
    for uuid, pid, _, memory, percent in rows:
        by_card[uuid].append(ProcessRow(pid, memory, percent))
    return [DeviceRows(uuid, rows=tuple(its)) for uuid, its in by_card.items()]


@pytest.fixture(scope="module")
def pods(rows: Sequence[Row]) -> list[Pod]:
    held: defaultdict[int, str] = defaultdict(str)
    for uuid, _, pod, _, _ in rows:
        held[pod] += f"{uuid},NVIDIA,1024,0:"
    return [
        Pod(
            pod_uid(number),
            f"pod-{number}",
            "work",
            annotations={HAMI_ANNOTATION: f"{devices};"},
            containers=(PodContainer("main", "regular", container_id(number)),),
        )
        for number, devices in held.items()
    ]


@pytest.fixture(scope="module")
def processes(rows: Sequence[Row]) -> dict[tuple[int, str], str]:
    """The three files of every process."""
    files = {(HOST_PID, "cgroup"): "0::/init.scope\n"}
    for _, pid, pod, _, _ in rows:
        files[pid, "cgroup"] = f"0::/kubepods/pod{pod_uid(pod)}/{container_id(pod)}\n"
        files[pid, "stat"] = f"{pid} (python) S 1"
        files[pid, "comm"] = "python\n"
    return files


def plainly(rows: Sequence[Row]) -> bytes:
    """The section as the obvious program would make it."""
    sums: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    counts: defaultdict[str, int] = defaultdict(int)
    for uuid, _, pod, memory, percent in rows:
        counts[uuid] += 1
        share = sums[uuid, pod_uid(pod)]
        share[0] += memory
        share[1] += percent
    usages: list[dict[str, Any]] = [
        {
            "manufacturer": "nvidia",
            "podUID": pod,
            "container": "main",
            "deviceID": uuid,
            "memoryUsedMiB": memory // MIB,
            "coresUtilizationPercent": percent,
        }
        for (uuid, pod), (memory, percent) in sorted(sums.items())
    ]
    devices = [
        {
            "manufacturer": "nvidia",
            "deviceID": uuid,
            "rowsReturned": count,
            "rowsAttributed": count,
            "rowsNonInstance": 0,
            "rowsUnreadable": 0,
            "rowsAmbiguous": 0,
            "readsTruncated": 0,
        }
        for uuid, count in sorted(counts.items())
    ]
    document = {"schemaVersion": 1, "usages": usages, "devices": devices}
    return json.dumps(document, separators=(",", ":")).encode()


def aggregated(cards: Sequence[DeviceRows], known: Mapping[int, Attribution]) -> bytes:
    section = aggregate(
        [("nvidia", cards)],
        capacities={},
        resolve=lambda pids: {pid: known[pid] for pid in pids},
        name_of=lambda _: "main",
    )
    assert section is not None
    return to_json(section)


def test_the_plain_program(benchmark: BenchmarkFixture, rows: list[Row]) -> None:
    assert len(benchmark(plainly, rows)) > ROWS * 100


def test_aggregated_and_written(
    benchmark: BenchmarkFixture, rows: list[Row], cards: list[DeviceRows]
) -> None:
    known = {
        pid: Attribution("attributed", pod_uid(pod), container_id(pod))
        for _, pid, pod, _, _ in rows
    }
    assert aggregated(cards, known) == plainly(rows)
    benchmark(aggregated, cards, known)


class Driver:
    """Answers with the same rows every time."""

    def __init__(self, cards: Sequence[DeviceRows]) -> None:
        self._cards = cards

    def processes(self, device_ids: Sequence[str]) -> Sequence[DeviceRows]:
        return self._cards


def sources_of(
    cards: Sequence[DeviceRows],
    files: Mapping[tuple[int, str], str],
    charges: Sequence[Charge] = (),
) -> Sources:
    return Sources(
        processes={"nvidia": Driver(cards)},
        proc=lambda pid, name: files[pid, name],
        charges=charges,
    )


def written(pods: Sequence[Pod], sources: Sources) -> bytes:
    collected = collect(pods, sources)
    assert collected.section is not None
    return to_json(collected.section)


def test_a_whole_pass_with_attribution(
    benchmark: BenchmarkFixture,
    rows: list[Row],
    cards: list[DeviceRows],
    pods: list[Pod],
    processes: dict[tuple[int, str], str],
) -> None:
    """Annotations, attribution of 4096 pids over files in memory, sums, JSON."""
    sources = sources_of(cards, processes)
    assert written(pods, sources) == plainly(rows)
    benchmark(written, pods, sources)


def test_a_whole_pass_in_which_the_caches_fill_every_card(
    benchmark: BenchmarkFixture,
    rows: list[Row],
    cards: list[DeviceRows],
    pods: list[Pod],
    processes: dict[tuple[int, str], str],
) -> None:
    """A process of the host poisons all cards, so each of 4096 shares is a cache's."""
    host = ProcessRow(HOST_PID, 1, 0)
    poisoned = [DeviceRows(one.id, rows=(*one.rows, host)) for one in cards]
    charges = [
        Charge(pod_uid(pod), "main", uuid, memory, percent)
        for uuid, _, pod, memory, percent in rows
    ]
    sources = sources_of(poisoned, processes, charges)
    found, expected = json.loads(written(pods, sources)), json.loads(plainly(rows))
    assert found["usages"] == expected["usages"]
    assert {device["memoryReason"] for device in found["devices"]} == {"no_pod_component"}
    benchmark(written, pods, sources)
