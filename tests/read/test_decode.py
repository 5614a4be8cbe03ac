"""From raw values to meaning: what counts, what is consistent, what must stay absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hami_cache.absent import Absent
from hami_cache.errors import NotInitialisedError, SourceError
from hami_cache.model import Snapshot
from hami_cache.read import offline
from hami_cache.read.cache import Engine, open_cache
from hami_cache.read.decode import decode
from hami_cache.spec import registry
from hami_cache.spec.identify import Identification
from hami_cache.testing import CacheBuilder, Memory
from tests.goldens import LAYOUTS
from tests.read.conftest import Read

GIB = 1 << 30
SEQLOCKED = ("v1-seqlock", "v1-sem", "v1.2")

each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def counted(snapshot: Snapshot) -> list[int]:
    return [slot.index for slot in snapshot.slots if slot.counted]


@each_layout
@pytest.mark.parametrize(("proc_num", "slots"), [(-1, 0), (-(2**31), 0), (1025, 3), (2**31 - 1, 3)])
def test_proc_num_is_clamped_to_the_table(
    layout: str, proc_num: int, slots: int, read: Read
) -> None:
    builder = CacheBuilder(layout).process(71, memory=[1]).process(72, memory=[2])
    builder.process(73, memory=[4], index=1023).set("proc_num", proc_num)
    snapshot = read(builder.build(), layout=layout)
    assert len(counted(snapshot)) == slots
    assert snapshot.devices[0].used.total == (7 if slots else 0)
    assert snapshot.header.proc_num == proc_num
    (sign,) = [a for a in snapshot.anomalies if a.kind == "proc_num_out_of_range"]
    assert (sign.severity, sign.where) == ("error", "proc_num")


@each_layout
def test_suspended_processes_count_and_odd_statuses_are_said(layout: str, read: Read) -> None:
    builder = CacheBuilder(layout).process(71, memory=[1]).process(72, status=2, memory=[2])
    builder.process(73, status=7, memory=[4])
    snapshot = read(builder.build(), layout=layout)
    assert counted(snapshot) == [0, 1, 2]
    assert snapshot.devices[0].used.total == 7
    assert [a.where for a in snapshot.anomalies if a.kind == "status_out_of_range"] == [
        "procs[2].status"
    ]


@each_layout
def test_a_pid_that_stands_twice_is_counted_once(layout: str, read: Read) -> None:
    """An exiting process's successor may be half moved: its pid stands in two slots."""
    builder = CacheBuilder(layout).process(71, memory=[5]).process(72, memory=[2])
    snapshot = read(builder.process(71, memory=[5]).build())
    assert counted(snapshot) == [0, 1]
    assert snapshot.devices[0].used.total == 7
    assert [a.where for a in snapshot.anomalies if a.kind == "duplicate_pid"] == ["procs[2].pid"]


@pytest.mark.parametrize("layout", SEQLOCKED)
def test_an_odd_seqlock_leaves_the_total_and_takes_the_parts(layout: str, read: Read) -> None:
    builder = CacheBuilder(layout).process(71, memory=[Memory(context=1, data=2)], seqlock=7)
    snapshot = read(builder.process(72, memory=[Memory(module=4)]).build())
    used = snapshot.devices[0].used
    assert used.total == 7
    assert used.context == used.module == used.data == Absent("stuck_seqlock")
    assert [slot.verdict for slot in snapshot.slots] == ["stuck", "stable"]
    assert [slot.consistent for slot in snapshot.slots] == [False, True]
    assert [a.where for a in snapshot.anomalies if a.kind == "stuck_seqlock"] == [
        "procs[0].seqlock"
    ]


@each_layout
def test_parts_that_do_not_add_up_are_absent_on_their_device_only(layout: str, read: Read) -> None:
    """A killed writer leaves a total without its part for ever; the total was really there."""
    builder = CacheBuilder(layout).device().device()
    builder.process(71, memory=[Memory(context=1, data=2, total=9), Memory(context=8)])
    snapshot = read(builder.process(72, memory=[Memory(module=16)] * 2).build(), layout=layout)
    first, second = (device.used for device in snapshot.devices)
    assert first.total == 25
    assert first.context == first.module == first.data == Absent("sum_mismatch")
    assert (second.total, second.context, second.module) == (24, 8, 16)
    assert snapshot.slots[0].verdict == "unbalanced"
    assert [a.where for a in snapshot.anomalies if a.kind == "sum_mismatch"] == [
        "procs[0].used[0].total"
    ]


@each_layout
def test_a_part_below_zero_leaves_the_total(layout: str, read: Read) -> None:
    memory = Memory(context=10, data=2**64 - 4)
    snapshot = read(CacheBuilder(layout).process(71, memory=[memory]).build())
    used = snapshot.devices[0].used
    assert (used.total, used.context) == (6, 10)
    assert used.data == Absent("counter_underflow")


@each_layout
def test_a_sum_that_cannot_be_is_absent(layout: str, read: Read) -> None:
    """Each below 2^63, together beyond: no gauge may wrap."""
    builder = CacheBuilder(layout).process(71, memory=[2**62]).process(72, memory=[2**62])
    snapshot = read(builder.build())
    assert snapshot.devices[0].used.total == Absent("sum_overflow")


@each_layout
def test_utilization_is_a_sum_or_not_in_the_layout(layout: str, read: Read) -> None:
    builder = CacheBuilder(layout).process(71, sm_util=[80]).process(72, sm_util=[70])
    busy, idle = read(builder.build()), read(CacheBuilder(layout).device().build())
    if layout == "v0-legacy":
        assert busy.devices[0].sm_util == idle.devices[0].sm_util == Absent("not_in_layout")
        assert busy.slots[0].device_util is None
    else:
        assert (busy.devices[0].sm_util, idle.devices[0].sm_util) == (150, 0)
        assert "utilization_over_100" in {a.kind for a in busy.anomalies}


@each_layout
def test_what_a_layout_lacks_is_none(layout: str, read: Read) -> None:
    header = read(CacheBuilder(layout).process(71).build()).header
    has_version = layout not in ("v0-legacy", "v0")
    assert (header.major_version is None) == (not has_version)
    assert (header.last_kernel_time is None) == (not has_version)
    assert (header.sem_postinit is None) == (layout not in ("v1-sem", "v1.2"))
    slot = read(CacheBuilder(layout).process(71).build()).slots[0]
    assert (slot.seqlock is None) == (layout not in SEQLOCKED)


def test_no_sum_of_a_slot_that_two_layouts_explain(read: Read) -> None:
    """A tenant can write a slot that v1 and v1-seqlock explain equally well."""
    builder = CacheBuilder("v1").process(71, memory=[Memory(context=1 << 41)])
    builder.patch(builder.layout.field("procs[0]").offset + 1936, b"\1")  # v1-seqlock's status
    data = builder.build()
    snapshot = read(data)
    assert counted(snapshot) == [0]
    total = snapshot.devices[0].used.total
    assert total in (Absent("layout_ambiguous"), Absent("layout_mixed"))
    assert read(data, layout="v1").devices[0].used.total == 1 << 41


def test_counted_slots_of_an_ambiguous_file_have_no_sum() -> None:
    layout = registry.layout("v1")
    data = CacheBuilder(layout).process(71, memory=[GIB]).build()
    doubt = Identification(layout, "ambiguous", 0.5, (), "v1 or v2: nothing tells them apart")
    copy = offline.copy(layout, data)
    free = decode(layout, copy, doubt, len(data))
    assert free.devices[0].used.total == Absent("layout_ambiguous")
    assert free.devices[0].sm_util == Absent("layout_ambiguous")
    asked = decode(layout, copy, doubt, len(data), insisted=True)
    assert asked.devices[0].used.total == GIB


@each_layout
def test_lists_of_a_slot_cover_every_device_with_anything(layout: str, read: Read) -> None:
    builder = CacheBuilder(layout).device().process(71, memory={0: 1, 12: 3})
    snapshot = read(builder.build())
    (slot,) = snapshot.slots
    assert len(slot.used) == len(slot.monitorused or ()) == 13
    assert [use.total for use in slot.used if use.total] == [1, 3]
    assert len(snapshot.devices) == 1


def test_a_magic_that_went_back_to_0_is_not_read_on(engine: Engine, tmp_path: Path) -> None:
    path = CacheBuilder("v1.2").process(71, memory=[GIB]).write(tmp_path / "x.cache")
    with open_cache(path, engine=engine) as cache:
        with path.open("r+b") as file:
            file.write(bytes(4))
        if engine == "native":
            with pytest.raises(NotInitialisedError, match="back to 0"):
                cache.snapshot()
        else:
            assert cache.snapshot().devices[0].used.total == GIB  # the bytes of the opening


def test_a_file_cut_while_open_is_an_error(tmp_path: Path) -> None:
    path = CacheBuilder("v1.2").process(71, memory=[GIB]).write(tmp_path / "x.cache")
    with open_cache(path) as cache:
        os.truncate(path, 4096)
        with pytest.raises(SourceError, match="cut") as caught:
            cache.snapshot()
    assert str(path) in str(caught.value)


def test_a_native_snapshot_is_live_and_stays_as_it_was(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2").process(71, memory=[GIB])
    path = builder.write(tmp_path / "x.cache")
    with open_cache(path) as cache:
        before = cache.snapshot()
        with path.open("r+b") as file:
            file.write(CacheBuilder("v1.2").process(71, memory=[2 * GIB]).build())
        after = cache.snapshot()
    assert before.devices[0].used.total == GIB
    assert after.devices[0].used.total == 2 * GIB


def test_a_forced_layout_needs_its_bytes(engine: Engine, tmp_path: Path) -> None:
    path = CacheBuilder("v0").process(71).write(tmp_path / "x.cache")
    with pytest.raises(SourceError, match=r"too few: v1\.2 has 2008952"):
        open_cache(path, layout="v1.2", engine=engine)


def test_reading_does_not_write(engine: Engine, tmp_path: Path) -> None:
    """Not even an access through the mapping: a file without write permission is enough."""
    path = CacheBuilder("v1.2").process(71, memory=[GIB]).write(tmp_path / "x.cache")
    before = path.read_bytes()
    path.chmod(0o400)
    with open_cache(path, engine=engine) as cache:
        cache.snapshot()
    assert path.read_bytes() == before
