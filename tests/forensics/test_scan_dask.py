"""The same scan on a real cluster of two workers, one of which is killed in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hami_cache.errors import ConfigError, HamiCacheError
from hami_cache.forensics import scan_dask, scan_run
from hami_cache.forensics.scan_examine import Settings
from hami_cache.forensics.scan_inputs import Place
from hami_cache.testing import CacheBuilder
from tests.forensics.archives import gz, tar
from tests.forensics.dask_cluster import Cluster
from tests.forensics.helpers import AFTERWARDS

SETTINGS = Settings(AFTERWARDS)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("dask")) as made:
        yield made


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fleet")
    for index, layout in enumerate(("v0", "v1", "v1-sem", "v1.2")):
        builder = CacheBuilder(layout).process(index + 1, memory=[index << 20])
        builder.write(root / f"{index}_main" / "x.cache")
    data = CacheBuilder("v0").process(9).build()
    (root / "node.tar.gz").write_bytes(gz(tar({"a/x.cache": data, "b/y.cache": data[:5]})))
    (root / "broken.zip").write_bytes(b"?" * 100)
    return root


def places(fleet: Path) -> list[Place]:
    """The fleet thirty times over, so that a scan has a middle."""
    return list(scan_run.find([str(fleet)], SETTINGS.choice)) * 30


def test_equal_to_the_local_run_although_a_worker_is_killed(cluster: Cluster, fleet: Path) -> None:
    local = list(scan_run.scan(places(fleet), SETTINGS, 1))
    found = scan_dask.scan(places(fleet), SETTINGS, cluster.address)
    begun = [next(found) for _ in range(20)]
    cluster.workers[0].kill()
    cluster.workers[0].wait()
    assert begun + list(found) == local
    assert len(local) == 210


def test_what_goes_wrong_on_a_worker_is_one_line(
    cluster: Cluster, fleet: Path, tmp_path: Path
) -> None:
    settings = replace(SETTINGS, layouts=tmp_path / "nowhere")
    with pytest.raises(HamiCacheError, match="cannot list the folder of layouts"):
        list(scan_dask.scan(places(fleet)[:5], settings, cluster.address))


def test_a_cluster_without_workers(tmp_path: Path) -> None:
    with Cluster(tmp_path, workers=0) as made, pytest.raises(ConfigError, match="has no workers"):
        list(scan_dask.scan([], SETTINGS, made.address))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense", "tcp://127.0.0.1:x", ""])
def test_an_address_where_nobody_answers(address: str) -> None:
    with pytest.raises(ConfigError, match=r"answers|not an address"):
        list(scan_dask.scan([], SETTINGS, address))
