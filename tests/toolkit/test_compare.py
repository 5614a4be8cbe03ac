"""Layouts against each other: what upstream's own changes look like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_cache.spec import registry
from hami_cache.spec.layout import CType, Field, Layout, Struct
from hami_cache.toolkit.compare import Comparison, compare
from hami_cache.toolkit.shape import Shape, is_padding, of_layout
from tests.goldens import LAYOUTS
from tests.toolkit.headers import EVERY_LAYOUT

KNOWN = registry.layouts()


def between(before: str, after: str) -> Comparison:
    return compare(of_layout(KNOWN[before]), of_layout(KNOWN[after]))


def kinds(comparison: Comparison) -> dict[str, tuple[str, ...]]:
    return {change.path: change.kinds for change in comparison.changes}


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_a_layout_is_itself(layout: Layout) -> None:
    comparison = compare(of_layout(layout), of_layout(layout))
    assert comparison.equal
    assert not comparison.changes
    assert not comparison.notes
    assert not comparison.indistinguishable


@pytest.mark.parametrize("before", LAYOUTS)
@pytest.mark.parametrize("after", LAYOUTS)
def test_a_difference_is_one_both_ways(before: str, after: str) -> None:
    there, back = between(before, after), between(after, before)
    assert there.equal == back.equal == (before == after)
    assert {c.after for c in there.changes} == {c.before for c in back.changes}


def test_only_one_pair_of_layouts_cannot_be_told_apart() -> None:
    pairs = {(a, b) for a in LAYOUTS for b in LAYOUTS if between(a, b).indistinguishable}
    assert pairs == {("v1", "v1-seqlock"), ("v1-seqlock", "v1")}


def test_the_seqlock_that_moved_the_slot() -> None:
    comparison = between("v1", "v1-seqlock")
    assert kinds(comparison) == {
        "procs.seqlock": ("added",),
        "procs.used": ("moved",),
        "procs.monitorused": ("moved",),
        "procs.device_util": ("moved",),
        "procs.status": ("moved",),
        "procs.unused": ("moved", "resized"),
    }
    assert [c.path for c in comparison.changes if not c.breaks] == ["procs.unused"]


def test_a_field_under_another_name() -> None:
    comparison = between("v0", "v1")
    [change] = [c for c in comparison.changes if c.path == "num"]
    assert change.kinds == ("renamed", "moved")
    assert change.detail == "renamed num to device_num; moved by +8, 48 to 56"


def test_a_struct_that_came_new_is_a_pair_with_nothing_before() -> None:
    pairs = {pair.path: pair for pair in between("v0-legacy", "v0").structs}
    assert pairs["procs.device_util"].before is None
    assert pairs["procs.device_util"].after is not None
    assert list(pairs) == ["", "procs", "procs.used", "procs.device_util"]


def test_a_lost_tail_is_a_difference() -> None:
    """Padding alone harms nobody, but a region of another size is another region."""
    shape = of_layout(KNOWN["v1"])
    shorter = replace(
        shape.region, sizeof=shape.region.sizeof - 32, fields=shape.region.fields[:-1]
    )
    comparison = compare(shape, replace(shape, region=shorter))
    assert not comparison.breaking
    assert not comparison.equal


def _shape(*names: str) -> Shape:
    long = CType("long", 8, 8, "signed")
    fields = tuple(
        Field(name, "long", long, 8 * i, 1, False, name, is_padding(name))
        for i, name in enumerate(names)
    )
    struct = Struct("t", 8 * len(names), 8, fields)
    return Shape("x", struct, {"t": struct}, None, None, "test", ())


def test_a_rename_is_told_from_a_field_that_came_and_one_that_went() -> None:
    assert kinds(compare(_shape("a", "b", "c"), _shape("a", "x", "c"))) == {"b": ("renamed",)}
    moved = kinds(compare(_shape("a", "b", "c"), _shape("new", "a", "x", "c")))
    assert moved == {"new": ("added",), "a": ("moved",), "b": ("renamed", "moved"), "c": ("moved",)}
    assert kinds(compare(_shape("a", "b"), _shape("b", "a"))) == {"b": ("moved",), "a": ("moved",)}


@pytest.mark.parametrize(
    "name", ["unused", "_", "reserved2", "_pad0", "padding", "__gap", "UNUSED"]
)
def test_names_of_padding(name: str) -> None:
    assert is_padding(name)


@pytest.mark.parametrize("name", ["pad_size", "used", "unusedness", "gaps", "device_num"])
def test_names_of_fields(name: str) -> None:
    assert not is_padding(name)
