"""What the native reader takes: layouts larger than today's, and none that leads it outside."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hami_cache import LayoutError, layouts, open_cache, read_figures
from hami_cache.read import seqlock
from hami_cache.read.figures import FigurePlan
from hami_cache.read.seqlock import FIGURES, Bounds, native_table
from hami_cache.spec import checks
from hami_cache.spec.layout import CType, Layout, Struct, align_up
from hami_cache.spec.table import OffsetTable
from hami_cache.testing import CacheBuilder, Memory

NEWEST = list(layouts().values())[-1]


def resized(layout: Layout, devices: int, slots: int, **types: CType) -> Layout:
    """A layout with other array lengths, and maybe other types, laid out as C would."""
    counts = dict.fromkeys(("uuids", "limit", "sm_limit", "used", "monitorused"), devices)
    counts |= {"device_util": devices, "procs": slots}
    known: dict[str, CType] = {}
    structs: dict[str, Struct] = {}
    for struct in layout.structs.values():
        end, fields = 0, []
        for field in struct.fields:
            ctype = types.get(field.logical, known.get(field.ctype.name, field.ctype))
            offset = align_up(end, ctype.align)
            count = counts.get(field.logical, field.count)
            fields.append(dataclasses.replace(field, ctype=ctype, offset=offset, count=count))
            end = fields[-1].end
        align = max(field.ctype.align for field in fields)
        structs[struct.name] = Struct(struct.name, align_up(end, align), align, tuple(fields))
        known[struct.name] = CType(struct.name, align_up(end, align), align, "struct")
    region = structs[layout.region.name]
    return dataclasses.replace(layout, name="other", region=region, structs=structs)


def test_resizing_to_the_same_lengths_changes_nothing() -> None:
    assert resized(NEWEST, 16, 1024).structs == NEWEST.structs


@pytest.mark.parametrize(
    ("devices", "slots"), [(1, 1), (32, 2048), (checks.MAX_DEVICES, 1000), (1, checks.MAX_SLOTS)]
)
def test_every_device_and_slot_of_another_layout_counts(
    devices: int, slots: int, tmp_path: Path
) -> None:
    layout = resized(NEWEST, devices, slots)
    assert not list(checks.problems(layout))
    builder = CacheBuilder(layout)
    for _ in range(devices):
        builder.device()
    for pid in range(1, slots + 1):
        builder.process(pid, memory={devices - 1: Memory(1, 2, 3)})
    with open_cache(builder.write(tmp_path / "x.cache"), layout=layout) as cache:
        figures = read_figures([cache])
        assert figures.values.shape == (1, devices, len(FIGURES))
        assert figures.values[0, :, 0].tolist() == [0] * (devices - 1) + [6 * slots]
        assert figures.reports["stable"] == slots
        copy = cache.copy()
        assert copy.verdicts == bytes([seqlock.VERDICTS.index("stable")]) * slots
        assert copy.data == builder.build()[: layout.sizeof]


@pytest.mark.parametrize(
    ("slots", "pids"),
    [
        (33, [7] * 33),
        (32, [7] * 32),
        (4096, [(k << 20) - 5 for k in range(4096)]),
        (4096, [k % 2048 - 1024 for k in range(4096)]),
        (40, [-(2**31)] * 20 + [2**31 - 1] * 20),
        (64, [0] * 64),
    ],
)
def test_each_pid_counts_once_whatever_tenants_choose(
    slots: int, pids: list[int], tmp_path: Path
) -> None:
    layout = resized(NEWEST, 1, 4096)
    builder = CacheBuilder(layout)
    for pid in pids:
        builder.process(pid, hostpid=1, memory=[1])
    with open_cache(builder.write(tmp_path / "x.cache"), layout=layout) as cache:
        report = (figures := FigurePlan([cache.target()]).read()).reports[0]
    # A slot without a pid is nobody's duplicate: zero is what an exited process leaves.
    once = len(set(pids) - {0}) + pids.count(0)
    wrapped = len({pid % 2**32 for pid in pids if pid}) + pids.count(0)
    assert once == wrapped == figures.values[0, 0, 0] == report["running"]
    assert report["duplicates"] == len(pids) - once


PACKED = CType("packed", 8, 1, "unsigned")

FAULTS: dict[str, tuple[str, Callable[[], Layout]]] = {
    "devices": ("device_count is 65", lambda: resized(NEWEST, 65, 8)),
    "slots": ("slot_count is 4097", lambda: resized(NEWEST, 1, 4097)),
    "misaligned": (
        "total is 29",
        lambda: resized(NEWEST, 16, 8, total=PACKED, offset=CType("short", 5, 1, "text")),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_layout_that_does_not_fit_is_refused_by_name(fault: str, tmp_path: Path) -> None:
    message, make = FAULTS[fault]
    layout = make()
    with pytest.raises(LayoutError, match=message):
        native_table(layout)
    path = CacheBuilder(layout).write(tmp_path / "x.cache")
    with open_cache(path, layout=layout) as cache, pytest.raises(LayoutError, match=message):
        cache.snapshot()
    assert list(checks.problems(layout))  # and the layout file would not have been loaded


GOOD: Mapping[str, int] = {
    name: getattr(native_table(NEWEST), name) for name in OffsetTable.__dataclass_fields__
}
OPTIONAL = {"seqlock", "sm", "monitorused", "last_kernel_time", "owner_pid"}


def fault(**changed: int) -> str:
    ffi, lib = seqlock.ffi, seqlock.lib
    found = lib.hc_layout_fault(ffi.new("hc_layout *", dict(GOOD) | changed))
    return "" if found == ffi.NULL else ffi.string(found).decode()


HARMLESS = {("device_count", 3), ("slot_count", 3), ("region_size", NEWEST.sizeof - 1)}
HARMLESS |= {(name, -1) for name in OPTIONAL}


@pytest.mark.parametrize("name", sorted(set(GOOD) - {"magic"}))
def test_no_number_of_a_table_leads_outside(name: str) -> None:
    for value in (-1, -2, -8, -(2**63), 2**63 - 1, 2**31, NEWEST.sizeof - 1, 3, 2**32 + 8):
        assert bool(fault(**{name: value})) == ((name, value) not in HARMLESS), value


def test_the_last_byte_may_be_used_and_not_one_more() -> None:
    size, slot = GOOD["region_size"], GOOD["slot_size"]
    table, record = GOOD["slot_count"] * slot, GOOD["used_size"]
    last = {
        "proc_num": size - 4,
        "device_num": size - 8,
        "limit": size - 8 * 16,
        "procs": size - table,
        "pid": slot - 4,
        "seqlock": slot - 8,
        "used": slot - 16 * record,
        "total": record - 8,
        "sm": slot - 15 * GOOD["util_size"] - 8,
        "monitorused": slot - 8 * 16,
    }
    for name, place in last.items():
        width = 4 if name in ("proc_num", "pid") else 8
        assert fault(**{name: place}) == "", name
        assert fault(**{name: place + width}) != "", name


def test_the_limits_of_spec_and_reader_are_the_same() -> None:
    huge = {"region_size": 1 << 30}
    assert fault(device_count=checks.MAX_DEVICES + 1) == "device_count"
    assert fault(slot_count=checks.MAX_SLOTS + 1) == "slot_count"
    assert fault(device_count=checks.MAX_DEVICES) not in ("", "device_count")  # no room for them
    assert fault(slot_count=checks.MAX_SLOTS, **huge) == ""
    assert fault(slot_count=checks.MAX_SLOTS) == "procs"


def test_waiting_has_bounds_of_any_size(tmp_path: Path) -> None:
    path = CacheBuilder(NEWEST).process(5, memory=[6], seqlock=7).write(tmp_path / "x.cache")
    with open_cache(path) as cache:
        for bounds in (Bounds(0, 0), Bounds(2**64 - 1, 0), Bounds(0, 2**64 - 1), Bounds(1, 1)):
            figures = FigurePlan([cache.target()] * 3).read(bounds)
            assert figures.reports["stuck"].tolist() == [1, 1, 1]
            assert (figures.flags[:, 0] == seqlock.FLAG_STUCK).all()
            assert figures.values[:, 0, 0].tolist() == [6, 6, 6]
            assert seqlock.copy(cache.target(), bounds).verdicts[0] == 3


def test_no_container_and_no_device_is_a_reading_too(tmp_path: Path) -> None:
    assert read_figures([]).values.shape == (0, 0, len(FIGURES))
    with open_cache(CacheBuilder(NEWEST).process(5, memory=[6]).write(tmp_path / "x")) as cache:
        assert read_figures([cache], devices=0).reports["stable"] == 1
        assert read_figures([cache], devices=200).values[0, 0, 0] == 6


def test_negative_parts_do_not_make_a_total_absurd(tmp_path: Path) -> None:
    """A part below zero is its own fault; the total is one word and stays good."""
    builder = CacheBuilder(NEWEST).device().device().device().device()
    builder.process(5, memory=[Memory(-5, 0, 9), Memory(1, 1, -9), 1 << 52, Memory(offset=2**63)])
    with open_cache(builder.write(tmp_path / "x.cache")) as cache:
        figures = read_figures([cache])
    assert figures.values[0, :4, 0].tolist() == [4, 2**64 - 7, 1 << 52, 0]
    both = seqlock.FLAG_UNDERFLOW | seqlock.FLAG_PART_UNDERFLOW
    assert figures.flags[0, :4].tolist() == [
        seqlock.FLAG_PART_UNDERFLOW, both, seqlock.FLAG_OVERFLOW, 0,
    ]  # fmt: skip


def test_a_slot_is_left_out_only_while_it_has_the_host_pid(tmp_path: Path) -> None:
    """The process that was found dead may have moved since, and another have taken its slot."""
    builder = CacheBuilder(NEWEST).process(5, 105, memory=[1]).process(6, 106, memory=[10])
    builder.process(7, 0, memory=[100]).process(8, 108, status=0, memory=[1000])
    with open_cache(builder.write(tmp_path / "x.cache")) as cache:
        skip = array("i", [0]) * 1024
        plan = FigurePlan([cache.target(skip=skip)])
        for hostpids, counted, left_out in (
            ([105, 0, 0, 0], 110, 1),
            ([106, 105, 0, 108], 111, 0),
            ([105, 106, 0, 108], 100, 2),
            ([-105, 2**31 - 1, 0, 0], 111, 0),
        ):
            skip[:4] = array("i", hostpids)
            figures = plan.read()
            assert figures.values[0, 0, 0] == counted
            assert figures.reports["skipped"] == left_out


def test_a_held_lock_is_told_and_bounds_the_waiting(tmp_path: Path) -> None:
    path = CacheBuilder(NEWEST).process(5, memory=[6]).set("owner_pid", 99).write(tmp_path / "x")
    with open_cache(path) as cache:
        figures = read_figures([cache])
        assert figures.reports[["status", "locked"]].tolist() == [(seqlock.STATUS_READ, 1)]
        assert figures.values[0, 0, 0] == 6
        assert cache.snapshot().header.owner_pid == 99
