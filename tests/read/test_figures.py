"""The native figures: the sums of a snapshot, or a flag where the snapshot has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hami_cache.absent import Absent
from hami_cache.read.cache import open_cache, read_figures
from hami_cache.read.seqlock import (
    FIGURES,
    FLAG_PART_UNDERFLOW,
    FLAG_STUCK,
    FLAG_UNBALANCED,
    FLAG_UNDERFLOW,
    STATUS_READ,
)
from hami_cache.spec import registry
from hami_cache.testing import CacheBuilder
from tests.goldens import LAYOUTS, Golden, golden, params
from tests.spec import offsets

PARTS = ("context", "module", "data")
FLAGS_OF_PARTS = FLAG_PART_UNDERFLOW | FLAG_STUCK | FLAG_UNBALANCED


def column(name: str) -> int:
    return FIGURES.index(name)


@pytest.mark.parametrize("one", params(lambda g: g.plain))
def test_figures_are_the_snapshots_sums(one: Golden, tmp_path: Path) -> None:
    with open_cache(one.write(tmp_path)) as cache:
        snapshot, figures = cache.snapshot(), read_figures([cache])
    assert figures.reports[0]["status"] == STATUS_READ
    assert figures.reports[0]["proc_num"] == snapshot.header.proc_num
    for device in snapshot.devices:
        row, flags = figures.values[0, device.index], int(figures.flags[0, device.index])
        used = device.used
        assert isinstance(used.total, Absent) == bool(flags & FLAG_UNDERFLOW)
        if not isinstance(used.total, Absent):
            assert row[column("total")] == used.total
        for part in PARTS:
            value = getattr(used, part)
            if isinstance(value, Absent):
                assert flags & FLAGS_OF_PARTS
            elif not flags & FLAGS_OF_PARTS:
                assert row[column(part)] == value
        util = 0 if isinstance(device.sm_util, Absent) else device.sm_util
        assert row[column("sm_util")] == util
        assert row[column("limit")] == device.limit
        assert row[column("sm_limit")] == device.sm_limit
    assert not figures.values[0, len(snapshot.devices) :].any()


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_offset_of_the_native_table_is_right(name: str, tmp_path: Path) -> None:
    """Each field holds its own offset, as the compiler has it; sums are sums of offsets."""
    layout = registry.layout(name)
    data = offsets.region(name, layout.sizeof)
    places = {place.path: place.offset for place in offsets.places(name)}
    number = "num" if "num" in places else "device_num"
    for path, value in (
        ("initialized_flag", layout.identity.magic),
        (number, 16),
        ("proc_num", 2),
    ):
        ref = layout.field(path)
        data[ref.offset : ref.offset + ref.size] = value.to_bytes(ref.size, "little")
    file = tmp_path / "x.cache"
    file.write_bytes(data)
    with open_cache(file, layout=layout) as cache:
        figures = read_figures([cache])
    report: Any = figures.reports[0]
    for field in ("utilization_switch", "recent_kernel", "priority"):
        assert report[field] == places[field]
    assert report["last_kernel_time"] == places.get("last_kernel_time", 0)
    assert report["odd_status"] == 2
    assert report["watched"] == 1
    for device in range(16):
        row = figures.values[0, device]
        for figure, suffix in {
            "total": f"used[{device}].total",
            "context": f"used[{device}].context_size",
            "module": f"used[{device}].module_size",
            "data": f"used[{device}].data_size",
            "sm_util": f"device_util[{device}].sm_util",
        }.items():
            want = sum(places.get(f"procs[{slot}].{suffix}", 0) for slot in (0, 1))
            assert row[column(figure)] == want, (figure, device)
        assert row[column("limit")] == places[f"limit[{device}]"]
        assert row[column("sm_limit")] == places[f"sm_limit[{device}]"]


def test_many_containers_come_in_one_array(tmp_path: Path) -> None:
    files = [
        CacheBuilder(name).process(71, memory=[i + 1]).write(tmp_path / name)
        for i, name in enumerate(LAYOUTS)
    ]
    caches = [open_cache(file) for file in files]
    out = np.zeros((len(files), 16, len(FIGURES)), np.uint64)
    figures = read_figures(caches, out)
    for cache in caches:
        cache.close()
    assert figures.values is out
    assert out[:, 0, column("total")].tolist() == [1, 2, 3, 4, 5, 6]


def test_one_bad_container_costs_no_other_its_figures(tmp_path: Path) -> None:
    good = CacheBuilder("v1.2").process(71, memory=[5]).write(tmp_path / "good")
    gone = CacheBuilder("v1.2").process(71, memory=[7]).write(tmp_path / "gone")
    with open_cache(gone) as first, open_cache(good) as second:
        gone.unlink()
        figures = read_figures([first, second])
    assert figures.reports["status"].tolist()[1] == STATUS_READ
    assert figures.reports["status"].tolist()[0] != STATUS_READ
    assert not figures.values[0].any()
    assert figures.values[1, 0, column("total")] == 5


def test_a_golden_that_is_mixed_still_says_so_beside_its_figures(tmp_path: Path) -> None:
    """The figures are raw: whoever publishes them must look at the verdict."""
    with open_cache(golden("v1.2--mixed-v1-then-v1.2").write(tmp_path)) as cache:
        assert cache.identification.verdict == "mixed"
        assert read_figures([cache]).reports[0]["status"] == STATUS_READ
