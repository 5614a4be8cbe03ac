"""Public reports about monitors like this one, as inputs: groups A (the file) and B (its numbers).

Each test is named after its row. The monitor's part of a row (series, counters) is tested there.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hami_cache
from hami_cache.absent import Absent
from hami_cache.cli.main import main
from hami_cache.errors import NotInitialisedError, UnknownLayoutError
from hami_cache.model import Anomaly, Snapshot
from hami_cache.read.cache import open_cache
from hami_cache.testing import CacheBuilder, Memory
from tests.goldens import LAYOUTS
from tests.read.conftest import Read

MIB, GIB = 1 << 20, 1 << 30
UUID = "GPU-609c8b6a-7f4e-4a45-9a40-cd2b4d13d1f2"

each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def signs(snapshot: Snapshot) -> list[Anomaly]:
    """What is wrong, but for utilization: these processes compute nothing."""
    return [sign for sign in snapshot.anomalies if sign.kind != "utilization_not_measured"]


def kinds(snapshot: Snapshot) -> list[str]:
    return [sign.kind for sign in signs(snapshot)]


def test_a1_a_second_semaphore_is_no_uuid(read: Read) -> None:
    """HAMi#1811: v1-sem read by v1's offsets put semaphore bytes into a metric label."""
    builder = CacheBuilder("v1-sem", priority=1).device(UUID, limit=4 * GIB, sm_limit=50)
    snapshot = read(builder.process(71, memory=[Memory(data=GIB)]).build())
    (device,) = snapshot.devices
    assert snapshot.layout == "v1-sem"
    assert (device.uuid, device.limit, device.sm_limit) == (UUID, 4 * GIB, 50)
    assert device.used.total == GIB
    assert snapshot.header.priority == 1
    assert kinds(snapshot) == []


def test_a1_a_semaphore_read_as_uuid_on_request_is_absent(read: Read) -> None:
    data = CacheBuilder("v1-sem").device(UUID).process(71, memory=[GIB]).build()
    (device,) = read(data, layout="v1").devices
    assert device.uuid == Absent("uuid_unreadable")


def test_a3_old_and_new_files_read_side_by_side(read: Read, tmp_path: Path) -> None:
    """HAMi#318: one v0-legacy file beside many newer ones brought the monitor down."""
    for gib, layout in enumerate(("v0", "v0-legacy", "v1", "v1-sem", "v1.2"), start=1):
        path = CacheBuilder(layout).process(71, memory=[gib * GIB]).write(tmp_path / layout)
        snapshot = read(path)
        assert (snapshot.layout, snapshot.devices[0].used.total) == (layout, gib * GIB)


@each_layout
def test_a4_both_lengths_a_writer_leaves_are_accepted(layout: str, read: Read) -> None:
    """HAMi#2503: sizeof, and sizeof + 1."""
    builder = CacheBuilder(layout).process(71, memory=[GIB])
    size = builder.layout.sizeof
    for length in (size, size + 1):
        assert read(builder.resize(length).build()).devices[0].used.total == GIB


def test_a4_a_cut_file_is_not_an_older_layouts(read: Read) -> None:
    """Its fix took everything between v0's size and v1's for v0."""
    builder = CacheBuilder("v1.2").process(71, memory=[GIB])
    for size in (1_500_000, 1_197_898, 1_197_897, 1_197_896, 804_681, 804_680):
        with pytest.raises(UnknownLayoutError, match=r"truncated.*") as caught:
            read(builder.resize(size).build())
        assert str(size) in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (CacheBuilder("v1").resize(64).build(), ["64 bytes"]),
        (CacheBuilder("v1").set("major_version", 9).set("minor_version", 9).build(), ["9.9"]),
        (CacheBuilder("v1").resize(11).build(), ["11 bytes", "header"]),
    ],
    ids=["64-bytes", "version-9.9", "11-bytes"],
)
def test_a5_unreadable_files_are_one_clear_error(
    data: bytes, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """HAMi#2194: a 64-byte file that claims 1.1 was mapped as if it had 2 MB."""
    path = tmp_path / "x.cache"
    path.write_bytes(data)
    assert main(["inspect", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    for word in (str(path), *words):
        assert word in line


@each_layout
@pytest.mark.parametrize("number", [17, 2**31, 2**64 - 1])
def test_a6_more_devices_than_there_is_room_for(layout: str, number: int, read: Read) -> None:
    """HAMi#2400, #2497, #2362: the count indexed arrays of 16."""
    builder = CacheBuilder(layout).process(71, memory=[GIB] * 16).set("device_num", number)
    snapshot = read(builder.build())
    assert snapshot.layout == layout
    assert len(snapshot.devices) == 16
    assert snapshot.header.device_num == number
    assert "device_num_out_of_range" in kinds(snapshot)
    assert [device.used.total for device in snapshot.devices] == [GIB] * 16


@each_layout
@pytest.mark.parametrize(
    "garbage",
    [bytes(96), b"\x80\0" * 48, b"\xff" * 96, b"\x1b[31mred"],
    ids=["zero", "semaphore", "high-bits", "control"],
)
def test_a8_one_unreadable_uuid_costs_one_device(
    layout: str, garbage: bytes, read: Read, tmp_path: Path
) -> None:
    """HAMi#1703, #2364, #2465: the uuid comes later than the magic number."""
    builder = CacheBuilder(layout).device().device(UUID).process(71, memory=[GIB, 2 * GIB])
    path = builder.set("uuids[0]", garbage).write(tmp_path / "x.cache")
    snapshot = read(path)
    assert snapshot.layout == layout
    assert [device.uuid for device in snapshot.devices] == [Absent("uuid_unreadable"), UUID]
    assert kinds(snapshot) == ["uuid_unreadable"]
    assert snapshot.devices[1].used.total == 2 * GIB
    late = f"{UUID[:-1]}0"
    again = read(builder.set("uuids[0]", late).write(path))
    assert [device.uuid for device in again.devices] == [late, UUID]


@each_layout
def test_a8_a_late_uuid_shows_up_in_an_open_cache(layout: str, tmp_path: Path) -> None:
    builder = CacheBuilder(layout).device().process(71, memory=[GIB])
    path = builder.set("uuids[0]", bytes(96)).write(tmp_path / "x.cache")
    with open_cache(path) as cache:
        assert cache.snapshot().devices[0].uuid == Absent("uuid_unreadable")
        with path.open("r+b") as file:
            file.seek(builder.layout.field("uuids[0]").offset)
            file.write(UUID.encode())
        assert cache.snapshot().devices[0].uuid == UUID


@each_layout
def test_a10_a_file_that_is_not_ready_becomes_ready(
    layout: str, read: Read, tmp_path: Path
) -> None:
    """HAMi-core#194: empty; magic 0; only the last byte written."""
    ready = CacheBuilder(layout).process(71, memory=[GIB])
    path = tmp_path / "x.cache"
    for data in (
        b"",
        CacheBuilder(layout).process(71, memory=[GIB]).not_initialised().build(),
        bytes(ready.layout.sizeof + 1),
    ):
        path.write_bytes(data)
        with pytest.raises(NotInitialisedError, match="try again"):
            read(path)
        assert hami_cache.identify(path).verdict == "not_initialised"
    with path.open("r+b") as file:
        file.write(ready.build())
    assert read(path).devices[0].used.total == GIB


@each_layout
def test_a12_a_limit_of_zero_is_unset(layout: str, read: Read) -> None:
    """HAMi#2125: usage against a limit of 0 is no ratio."""
    data = CacheBuilder(layout).device(limit=0).process(71, memory=[2 * GIB]).build()
    snapshot = read(data)
    assert snapshot.devices[0].limit == 0
    assert snapshot.devices[0].used.total == 2 * GIB
    assert kinds(snapshot) == ["limit_unset"]


@each_layout
def test_b1_slots_past_proc_num_do_not_count(layout: str, read: Read) -> None:
    """HAMi#2281: old values lie in the slots behind."""
    builder = CacheBuilder(layout).process(71, memory=[100])
    builder.process(99, memory=[7 * GIB], index=5).set("proc_num", 1)
    snapshot = read(builder.build())
    assert snapshot.layout == layout
    assert snapshot.devices[0].used.total == 100
    assert [(slot.index, slot.counted) for slot in snapshot.slots] == [(0, True), (5, False)]
    assert "stale_slot" in kinds(snapshot)


@each_layout
def test_b2_an_exited_slot_does_not_count_but_is_shown(layout: str, read: Read) -> None:
    """HAMi#2310: status 0 below proc_num, with numbers."""
    builder = CacheBuilder(layout).process(71, memory=[100]).process(0, status=0, memory=[900])
    snapshot = read(builder.build())
    assert snapshot.devices[0].used.total == 100
    assert snapshot.slots[1].used[0].total == 900
    assert not snapshot.slots[1].counted
    (exited,) = [a for a in snapshot.anomalies if a.kind == "exited_slot"]
    assert (exited.where, "900" in exited.detail) == ("procs[1]", True)


@each_layout
def test_b3_a_total_below_zero_is_no_huge_gauge(
    layout: str, read: Read, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """HAMi#1181, HAMi-core#60: 2^64 minus a little, read as unsigned."""
    builder = CacheBuilder(layout).device().device()
    builder.process(71, memory=[Memory(total=2**64 - 1_813_956), 5 * MIB])
    builder.process(72, memory=[Memory(data=GIB), 6 * MIB])
    path = builder.write(tmp_path / "x.cache")
    snapshot = read(path)
    first, second = snapshot.devices
    assert first.used.total == Absent("counter_underflow")
    assert second.used.total == 11 * MIB
    assert snapshot.slots[1].used[0].total == GIB
    (sign,) = [a for a in snapshot.anomalies if a.kind == "counter_underflow"]
    assert sign.where == "procs[0].used[0].total"
    assert "-1813956" in sign.detail
    assert main(["inspect", "--json", str(path)]) == 0
    shown = json.loads(capsys.readouterr().out)["devices"][0]["used"]["total"]
    assert shown == {"absent": "counter_underflow"}


@each_layout
def test_b4_more_than_the_limit_is_reported_as_it_is(layout: str, read: Read) -> None:
    """HAMi-core#200: usage above the limit, from a stale slot or a race."""
    builder = CacheBuilder(layout).device(limit=4 * GIB)
    builder.process(71, memory=[3 * GIB]).process(72, memory=[2 * GIB])
    snapshot = read(builder.build())
    assert (snapshot.devices[0].limit, snapshot.devices[0].used.total) == (4 * GIB, 5 * GIB)
    (over,) = signs(snapshot)
    assert over.kind == "over_limit"
    assert str(GIB) in over.detail
