"""The views of a layout that other people's tools get: numpy, construct, and paths."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any

import numpy as np
import pytest

from hami_cache.spec import registry, views
from hami_cache.spec.content import read_number
from hami_cache.spec.layout import Layout
from tests.goldens import LAYOUTS, Golden, goldens, params
from tests.spec import offsets
from tests.spec.test_abi import abi

SLOTS = 8
"""How many slots construct parses of each golden, field by field; few files fill more."""


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> Layout:
    return registry.layout(request.param)


def follow(value: Any, path: str) -> Any:
    """What a C path with indices leads to inside a numpy record or a construct Container."""
    for name, index in re.findall(r"(\w+)(?:\[(\d+)\])?", path):
        value = value[name]
        if index:
            value = value[int(index)]
    return value


def test_dtype_has_the_compilers_size_and_offsets(layout: Layout) -> None:
    dtype = layout.dtype
    assert dtype.itemsize == layout.sizeof
    for name, struct in abi(layout.name)["structs"].items():
        own: Any = dtype if name == offsets.REGION else _dtype_of(dtype, layout, name)
        assert own.itemsize == struct["sizeof"], name
        assert {k: own.fields[k][1] for k in own.names} == {
            field["name"]: field["offset"] for field in struct["fields"]
        }
        for field in struct["fields"]:
            assert own.fields[field["name"]][0].itemsize == field["size"], field["name"]


def _dtype_of(dtype: Any, layout: Layout, struct: str) -> Any:
    """The element dtype of the first field of that struct, wherever it is nested."""
    for owner in layout.structs.values():
        for field in owner.fields:
            if field.ctype.name == struct:
                parent = dtype if owner is layout.region else _dtype_of(dtype, layout, owner.name)
                return parent.fields[field.name][0].base
    raise AssertionError(struct)


def test_numpy_finds_every_offset_in_its_own_place(layout: Layout) -> None:
    data = offsets.region(layout.name, layout.sizeof)
    record = np.frombuffer(data, layout.dtype, 1)[0]
    for place in offsets.places(layout.name):
        found = follow(record, place.path)
        if place.number:
            assert int(found) == place.offset, place
        else:
            assert found.tobytes() == place.raw, place


def test_paths_find_every_offset_in_its_own_place(layout: Layout) -> None:
    data = bytes(offsets.region(layout.name, layout.sizeof))
    for place in offsets.places(layout.name):
        ref = layout.field(place.path)
        assert (ref.offset, ref.size, ref.count) == (place.offset, place.size, 1)
        if place.number:
            assert read_number(data, ref) == place.offset


def test_construct_finds_every_offset_in_its_own_place(layout: Layout) -> None:
    short = with_slots(layout, 2)
    data = bytes(offsets.region(layout.name, layout.sizeof))
    parsed = views.construct(short).parse(data)
    for place in offsets.places(layout.name, slots=(0, 1)):
        found = follow(parsed, place.path)
        if place.number:
            assert found == place.offset, place
        else:
            assert bytes(found) == place.raw, place


def with_slots(layout: Layout, count: int) -> Layout:
    """The same layout with a shorter slot table; the rest of the table becomes a gap of raw bytes.

    construct takes most of a second for a whole table, most of whose slots were never used.
    """
    fields = tuple(
        dataclasses.replace(field, count=count) if field.name == "procs" else field
        for field in layout.region.fields
    )
    return dataclasses.replace(layout, region=dataclasses.replace(layout.region, fields=fields))


@pytest.mark.parametrize("golden", params())
def test_construct_builds_every_golden_back(golden: Golden) -> None:
    """Byte for byte; of the slot table only the first slots as fields, the rest in one piece."""
    layout = registry.layout(golden.layout)
    data = golden.data[: layout.sizeof].ljust(layout.sizeof, b"\0")
    short = with_slots(layout, SLOTS)
    spec = views.construct(short)
    assert spec.sizeof() == layout.sizeof
    parsed = spec.parse(data)
    assert parsed.initialized_flag == golden.want["header"]["initialized_flag"]
    for slot in golden.want["slots"]:
        if slot["index"] < SLOTS:
            assert parsed.procs[slot["index"]].pid == slot["pid"]
    assert spec.build(parsed) == data


@pytest.mark.parametrize("golden", params(lambda g: g.synthetic))
def test_construct_builds_whole_files_back(golden: Golden) -> None:
    """The Struct that `Layout.construct` gives, with all its 1024 slots, on one file a layout."""
    layout = registry.layout(golden.layout)
    data = golden.data[: layout.sizeof]
    parsed = layout.construct.parse(data)
    assert len(parsed.procs) == layout.field("procs").count
    assert layout.construct.build(parsed) == data


@pytest.mark.soak
@pytest.mark.skipif(not os.environ.get("HAMI_CACHE_SOAK"), reason="three minutes: make soak")
def test_construct_builds_every_whole_golden_back() -> None:
    for golden in goldens():
        layout = registry.layout(golden.layout)
        data = golden.data[: layout.sizeof].ljust(layout.sizeof, b"\0")
        assert layout.construct.build(layout.construct.parse(data)) == data, golden.name


def test_gaps_between_fields_survive_construct(layout: Layout) -> None:
    """A compiler's padding is no field, but a file may hold anything there."""
    data = bytes(range(256)) * (layout.sizeof // 256 + 1)
    short = with_slots(layout, 2)
    assert (
        views.construct(short).build(views.construct(short).parse(data[: layout.sizeof]))
        == (data[: layout.sizeof])
    )
