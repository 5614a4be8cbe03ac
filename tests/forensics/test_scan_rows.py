"""A row says what doctor and inspect say about the same file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hami_cache.absent import Absent
from hami_cache.errors import HamiCacheError
from hami_cache.forensics.anomalies import Circumstances, diagnose
from hami_cache.forensics.scan_row import DeviceUse, Row, document, examine, unopened
from hami_cache.read.cache import open_cache
from hami_cache.read.look import identify
from hami_cache.spec import registry
from hami_cache.testing import CacheBuilder, Memory
from tests.forensics.helpers import AFTERWARDS
from tests.goldens import Golden, golden, params

NOW = Circumstances(AFTERWARDS)
LAYOUTS = tuple(registry.layouts())
GIB = 1 << 30


def row_of(data: bytes) -> Row:
    return examine("x.cache", memoryview(data), registry.layouts(), NOW)


def expected(path: Path) -> Row:
    """The row of a file by way of doctor and inspect."""
    found = diagnose(path, NOW, engine="numpy")
    try:
        with open_cache(path, engine="numpy") as cache:
            snapshot = cache.snapshot()
    except HamiCacheError:
        devices = processes = None
    else:
        devices = tuple(DeviceUse(d.uuid, d.used.total, d.limit) for d in snapshot.devices)
        processes = len(found.processes)
    return Row(
        "x.cache",
        path.stat().st_size,
        found.layout,
        found.verdict,
        identify(path).confidence,
        processes,
        devices,
        Counter(finding.anomaly.kind for finding in found.findings),
    )


@pytest.mark.parametrize("one", params())
def test_every_golden(one: Golden, tmp_path: Path) -> None:
    assert row_of(one.data) == expected(one.write(tmp_path))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_any_damage(tmp_path: Path, data: st.DataObject) -> None:
    builder = CacheBuilder(data.draw(st.sampled_from(LAYOUTS)))
    for pid in range(1, data.draw(st.integers(1, 4))):
        builder.process(pid, memory=[Memory(context=pid << 20, data=GIB)], sm_util=[30])
    size = builder.layout.sizeof
    for _ in range(data.draw(st.integers(0, 3))):
        near = data.draw(
            st.sampled_from([0, 1600, size - 64, builder.layout.field("procs").offset])
        )
        offset = min(near + data.draw(st.integers(0, 600)), size - 8)
        builder.patch(offset, data.draw(st.binary(min_size=1, max_size=8)))
    path = builder.write(tmp_path / "x.cache")
    assert row_of(path.read_bytes()) == expected(path)


def test_a_mixed_file_names_no_sum() -> None:
    row = row_of(golden("v0--mixed-v0-legacy-then-v0").data)
    assert row.verdict == "mixed" and row.anomalies["layout_mixed"] == 1
    assert row.used == Absent("layout_mixed")


def test_an_absent_figure_says_why() -> None:
    row = row_of(CacheBuilder("v1.2").process(7, memory=[Memory(total=(1 << 64) - 5)]).build())
    assert row.used == Absent("counter_underflow")
    shown = document(row)
    assert shown["used"] == {"absent": "counter_underflow"}
    assert shown["devices"][0]["used"] == {"absent": "counter_underflow"}


def test_devices_that_add_up_to_too_much() -> None:
    builder = CacheBuilder("v1.2").device().device()
    row = row_of(builder.process(7, memory=[(1 << 63) - 1, 1]).build())
    assert row.devices is not None and row.devices[1].used == 1
    assert row.used == Absent("sum_overflow")


def test_no_device_is_not_the_same_as_no_reading() -> None:
    empty = row_of(CacheBuilder("v1.2").set("device_num", 0).build())
    assert (empty.devices, empty.used, empty.processes) == ((), 0, 0)
    unread = row_of(CacheBuilder("v1.2").not_initialised().build())
    assert (unread.devices, unread.used, unread.processes) == (None, None, None)
    assert document(unread)["used"] is None


def test_a_file_that_could_not_be_opened() -> None:
    assert document(unopened("x", "gone")) == {
        "file": "x", "size": None, "layout": None, "verdict": "unknown", "confidence": None,
        "processes": None, "used": None, "devices": None, "anomalies": {}, "error": "gone",
    }  # fmt: skip


def test_the_clock_counts() -> None:
    data = CacheBuilder("v1.2", last_kernel_time=2_000_000_000).build()
    early = examine("x", memoryview(data), registry.layouts(), Circumstances(1_900_000_000))
    late = examine("x", memoryview(data), registry.layouts(), Circumstances(2_100_000_000))
    assert "last_kernel_in_future" in early.anomalies
    assert "last_kernel_in_future" not in late.anomalies
