"""Reading one container, and a hundred, against the peers: the same files, the same process.

Every peer's answer is compared with ours before anything is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hami_cache
from benchmarks import caches, peers
from hami_cache.read.figures import FigurePlan
from hami_cache.read.seqlock import FIGURES

PICK = itemgetter(
    *(FIGURES.index(name) for name in ("limit", "total", "context", "module", "data", "sm_util"))
)
SUMS = [FIGURES.index(name) for name in ("total", "context", "module", "data", "sm_util")]
PEERS: dict[str, Callable[[caches.Case], Callable[[], list[peers.Row]]]] = {
    "numpy": peers.numpy_rows,
    "ctypes": peers.ctypes_rows,
    "construct": peers.construct_rows,
    "dissect.cstruct": peers.dissect_rows,
}
SLOW = {"construct", "dissect.cstruct"}


@pytest.fixture(scope="module", params=caches.CASES, ids=lambda case: f"D{case[0]}P{case[1]}")
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> caches.Case:
    return caches.build(tmp_path_factory.mktemp("case"), *request.param)


@pytest.fixture(scope="module")
def climit(tmp_path_factory: pytest.TempPathFactory) -> peers.CLimit:
    return peers.CLimit(tmp_path_factory.mktemp("climit"))


def ours_rows(cache: hami_cache.Cache, devices: int) -> Callable[[], list[peers.Row]]:
    """One native pass, and its figures as Python objects; uuid texts are kept while equal."""
    target = cache.target(check=False)
    plan = FigurePlan([target], devices)
    place = cache.layout.field("uuids")
    size = place.ctype.size
    known: dict[str, Any] = {"raw": None, "texts": []}

    def read() -> list[peers.Row]:
        raw = target.mapping.read_bytes(place.offset, size * devices)
        if raw != known["raw"]:
            assert raw is not None
            texts = [
                raw[i * size : (i + 1) * size].partition(b"\0")[0].decode() for i in range(devices)
            ]
            known.update(raw=raw, texts=texts)
        rows = map(PICK, plan.read().values[0].tolist())
        return [(text, *row) for text, row in zip(known["texts"], rows, strict=True)]

    return read


@pytest.fixture
def cache(case: caches.Case) -> Iterator[hami_cache.Cache]:
    with hami_cache.open_cache(case.path) as cache:
        yield cache


@pytest.mark.parametrize("peer", ["hami-cache", *PEERS])
def test_rows(
    benchmark: BenchmarkFixture, case: caches.Case, cache: hami_cache.Cache, peer: str
) -> None:
    ours = ours_rows(cache, case.devices)
    read = ours if peer == "hami-cache" else PEERS[peer](case)
    assert read() == ours()
    benchmark.group = f"rows {case.name}"
    benchmark.extra_info["peer"] = peer
    if peer in SLOW:
        benchmark.pedantic(read, rounds=3)
    else:
        benchmark(read)


@pytest.mark.parametrize("peer", ["hami-cache", "C", "C with seqlock"])
def test_raw(
    benchmark: BenchmarkFixture,
    case: caches.Case,
    cache: hami_cache.Cache,
    climit: peers.CLimit,
    peer: str,
) -> None:
    plan = FigurePlan([cache.target(check=False)], case.devices)
    limit = climit.many([case], seqlock=peer == "C with seqlock")
    assert (plan.read().values[0][:, SUMS] == limit()[0]).all()
    benchmark.group = f"raw {case.name}"
    benchmark.extra_info["peer"] = peer
    benchmark(plan.read if peer == "hami-cache" else limit)


@pytest.mark.parametrize("peer", ["hami-cache", "hami-cache, files checked", "C", "C with seqlock"])
def test_hundred_containers(
    benchmark: BenchmarkFixture, climit: peers.CLimit, tmp_path: Path, peer: str
) -> None:
    built = [caches.build(tmp_path, 8, 8, f"node-{n}") for n in range(caches.CONTAINERS)]
    opened = [hami_cache.open_cache(one.path) for one in built]
    check = peer.endswith("checked")
    plan = FigurePlan([cache.target(check=check) for cache in opened], 8)
    limit = climit.many(built, seqlock=peer == "C with seqlock")
    assert (plan.read().values[:, :, SUMS] == limit()).all()
    benchmark.group = f"raw, {caches.CONTAINERS} containers D8P8"
    benchmark.extra_info["peer"] = peer
    benchmark(plan.read if peer.startswith("hami-cache") else limit)
    for cache in opened:
        cache.close()
