"""The cache builder: every layout, everything it was asked for, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache import FieldError, LayoutError, identify, layouts, open_cache
from hami_cache.model import Semaphore, Snapshot
from hami_cache.spec.layout import Layout
from hami_cache.testing import CacheBuilder, Device, Memory, Process, build_cache
from hami_cache.testing.encode import Value

LAYOUTS = list(layouts().values())
every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)

WORD = st.integers(0, 2**60)


def busy(layout: Layout) -> CacheBuilder:
    """Two devices and three processes, with every figure different."""
    builder = CacheBuilder(layout, priority=3, recent_kernel=7, last_kernel_time=1_650_000_000)
    builder.device(limit=4 << 30, sm_limit=30).device("MIG-4c0e", limit=0, sm_limit=60)
    builder.process(
        71, 4071, memory=[Memory(101, 202, 303), Memory(404, 505, 606)], sm_util=[31, 32]
    )
    builder.process(72, 4072, status=2, memory={1: 707}, monitorused=[9001, 9002])
    return builder.process(0, 4073, status=0, memory=[Memory(data=808, total=809)])


def snapshot(tmp_path: Path, builder: CacheBuilder, layout: Layout | None = None) -> Snapshot:
    path = builder.write(tmp_path / "x.cache")
    with open_cache(path, layout=layout) as cache:
        return cache.snapshot()


@every_layout
def test_a_built_file_is_identified_as_its_layout(layout: Layout) -> None:
    found = identify(busy(layout).build())
    assert (found.verdict, found.layout) == ("identified", layout)


@every_layout
def test_everything_that_was_described_is_read_back(layout: Layout, tmp_path: Path) -> None:
    header, slots = (snap := snapshot(tmp_path, busy(layout))).header, snap.slots
    assert header.uuids[:3] == ("GPU-00000000-0000-4000-8000-000000000000", "MIG-4c0e", "")
    assert header.limit[:3] == (4 << 30, 0, 0)
    assert header.sm_limit == (30, 60, *[30] * 14)
    assert (header.device_num, header.proc_num, header.priority) == (2, 3, 3)
    assert (header.utilization_switch, header.recent_kernel) == (1, 7)
    assert header.sem == Semaphore(1, 0, 128)
    assert header.sem_postinit == (Semaphore(1, 0, 128) if layout.has("sem_postinit") else None)
    kernel = 1_650_000_000 if layout.has("last_kernel_time") else None
    assert header.last_kernel_time == kernel
    assert [(s.pid, s.hostpid, s.status, s.counted) for s in slots] == [
        (71, 4071, 1, True), (72, 4072, 2, True), (0, 4073, 0, False),
    ]  # fmt: skip
    assert [
        [(u.context, u.module, u.data, u.offset, u.total) for u in slot.used] for slot in slots
    ] == [
        [(101, 202, 303, 0, 606), (404, 505, 606, 0, 1515)],
        [(0, 0, 0, 0, 0), (0, 0, 707, 0, 707)],
        [(0, 0, 808, 0, 809), (0, 0, 0, 0, 0)],
    ]
    locks = [12, 2, 2] if layout.seqlock else [None] * 3
    assert [slot.seqlock for slot in slots] == locks
    if layout.has("procs.device_util.sm"):
        assert [u.sm for s in slots for u in s.device_util or ()] == [31, 32, 0, 0, 0, 0]
    if layout.has("procs.monitorused"):
        assert [slot.monitorused for slot in slots] == [(0, 0), (9001, 9002), (0, 0)]


@every_layout
def test_a_plain_file_has_nothing_to_complain_about(layout: Layout, tmp_path: Path) -> None:
    anomalies = snapshot(tmp_path, CacheBuilder(layout).process(5, memory=[1 << 30])).anomalies
    assert [anomaly for anomaly in anomalies if anomaly.severity != "info"] == []


@every_layout
def test_a_file_is_as_long_and_as_sparse_as_the_writers(layout: Layout, tmp_path: Path) -> None:
    path = busy(layout).write(tmp_path / "made" / "on" / "the" / "way.cache")
    assert path.read_bytes() == busy(layout).build()
    assert path.stat().st_size == layout.sizeof + layout.identity.trailing
    assert path.stat().st_blocks * 512 < 64 << 10


@every_layout
def test_every_number_of_the_region_can_be_overridden(layout: Layout) -> None:
    def paths(prefix: str, struct: str) -> list[str]:
        found = []
        for field in layout.structs[struct].fields:
            path = f"{prefix}{field.logical}" + (f"[{field.count - 1}]" if field.array else "")
            if field.ctype.kind == "struct":
                found += paths(f"{path}.", field.ctype.name)
            elif field.ctype.kind in ("signed", "unsigned"):
                found.append(path)
        return found

    builder = CacheBuilder(layout)
    wanted = {path: number for number, path in enumerate(paths("", layout.region.name), start=1)}
    for path, number in wanted.items():
        builder.set(path, number)
    data = builder.build()
    for path, number in wanted.items():
        ref = layout.field(path)
        assert int.from_bytes(data[ref.offset : ref.offset + ref.size], "little") == number


@given(context=WORD, module=WORD, data=WORD, device=st.integers(0, 15), slot=st.integers(0, 1023))
def test_any_memory_in_any_place_is_read_back(
    context: int, module: int, data: int, device: int, slot: int
) -> None:
    layout = LAYOUTS[-1]
    builder = CacheBuilder(layout)
    content = builder.process(9, memory={device: Memory(context, module, data)}, index=slot).build()
    parts = {"context": context, "module": module, "data": data, "total": context + module + data}
    for part, value in parts.items():
        ref = layout.field(f"procs[{slot}].used[{device}].{part}")
        assert int.from_bytes(content[ref.offset : ref.offset + ref.size], "little") == value


def test_what_a_layout_lacks_is_left_out_when_described_and_refused_when_set() -> None:
    old = LAYOUTS[0]
    assert not old.has("procs.seqlock")
    builder = CacheBuilder(old).process(5, seqlock=7, sm_util=[50])
    assert builder.build() == CacheBuilder(old).process(5).build()
    with pytest.raises(FieldError, match="seqlock"):
        builder.set("procs[0].seqlock", 7)


def test_values_wrap_as_in_c_and_do_not_spill() -> None:
    layout = layouts()["v1.2"]
    builder = CacheBuilder(layout)
    builder.set("procs[3].used[0].total", -5).set("proc_num", 2**32 - 1).set(
        "device_num", 2**64 - 1
    )
    data = builder.build()
    assert (
        data[(at := layout.field("procs[3].used[0].total").offset) : at + 8]
        == b"\xfb" + b"\xff" * 7
    )
    assert data[(at := layout.field("proc_num").offset) : at + 4] == b"\xff" * 4
    excess: dict[str, Value] = {"proc_num": 2**32, "priority": -(2**31) - 1, "uuids[0]": "x" * 97}
    for path, value in excess.items():
        with pytest.raises(FieldError, match="fit"):
            builder.set(path, value)


def test_fields_take_raw_bytes_lists_texts_and_semaphores() -> None:
    layout = layouts()["v1.2"]
    builder = CacheBuilder(layout)
    builder.set("uuids[1]", b"GPU-\xff\0left").set("limit", [1, 2]).set("sem", Semaphore(0, 3, 0))
    builder.set("uuids", ["GPU-a"]).set("procs[0]", b"\xaa" * 1960)
    region = builder.build()
    at = layout.field("uuids[1]").offset
    assert region[at - 96 : at + 10] == b"GPU-a".ljust(96, b"\0") + b"GPU-\xff\0left"
    assert region[layout.field("procs[0]").offset :][:1961] == b"\xaa" * 1960 + b"\0"
    assert region[24:36] == b"\0\0\0\0\3\0\0\0\0\0\0\0"
    assert region[layout.field("limit").offset :][:24] == b"\1" + bytes(7) + b"\2" + bytes(
        7
    ) + bytes(8)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("uuids[0]", 5, "cannot hold 5"),
        ("proc_num", "three", "cannot hold 'three'"),
        ("sem", 1, "cannot hold 1"),
        ("limit", 5, "takes a list or bytes"),
        ("limit", [0] * 17, "17 values for 16 elements"),
        ("proc_num", b"12345", "5 bytes do not fit into 4"),
        ("limit[16]", 0, "has no element 16"),
        ("nothing", 0, "has no 'nothing'"),
    ],
)
def test_a_wrong_override_says_so(path: str, value: Any, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        CacheBuilder("v1.2").set(path, value)


def test_an_unknown_layout_or_a_place_outside_is_refused() -> None:
    with pytest.raises(LayoutError, match=r"v9\.9"):
        CacheBuilder("v9.9")
    for process, index in ((Process(1), 1024), (Process(1, memory={16: 1}), 0)):
        with pytest.raises(FieldError, match="has no element"):
            CacheBuilder("v1.2").add(process, index).build()
    with pytest.raises(FieldError, match="before the file"):
        CacheBuilder("v1.2").patch(-1, b"x")


@every_layout
def test_broken_files(layout: Layout, tmp_path: Path) -> None:
    assert identify(busy(layout).not_initialised().build()).verdict == "not_initialised"
    assert identify(busy(layout).resize(4096).build()).verdict == "unknown"
    assert identify(busy(layout).resize(0).build()).verdict == "not_initialised"
    grown = busy(layout).resize(layout.sizeof + 5000).build()
    assert (len(grown), grown[: layout.sizeof]) == (
        layout.sizeof + 5000, busy(layout).build()[: layout.sizeof],
    )  # fmt: skip
    beyond = busy(layout).patch(layout.sizeof + 10, b"tail").build()
    assert beyond.endswith(b"tail") and len(beyond) == layout.sizeof + 14
    odd = snapshot(tmp_path, busy(layout).set("procs[0].status", 77), layout)
    assert odd.slots[0].status == 77


def test_build_cache_is_the_builder_in_one_call() -> None:
    process = Process(71, memory=[Memory(1, 2, 3)])
    built = build_cache(
        "v1", processes=[process], devices=[Device(limit=9)], fields={"priority": 0}, size=2_100_000
    )
    builder = CacheBuilder("v1").device(limit=9).add(process).set("priority", 0)
    assert built == builder.resize(2_100_000).build()
