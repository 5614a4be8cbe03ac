"""Differences by field path, within a layout and across layouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hami_cache.forensics.diff import Change, compare, document
from hami_cache.forensics.image import Image, load
from hami_cache.model import Semaphore
from hami_cache.testing import CacheBuilder
from tests.forensics.variants import note_variants
from tests.goldens import LAYOUTS, golden


def image(folder: Path, builder: CacheBuilder, name: str = "a") -> Image:
    return load(builder.write(folder / name), layout=builder.layout.name, engine="numpy")


def base(layout: str = "v1.2") -> CacheBuilder:
    return CacheBuilder(layout).process(7, 4711, memory=[100, 200], seqlock=0)


def changes(folder: Path, a: CacheBuilder, b: CacheBuilder) -> list[tuple[object, ...]]:
    found = compare(image(folder, a, "a"), image(folder, b, "b"))
    return [(change.where, change.before, change.after) for change in found]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_differs_from_itself(layout: str, tmp_path: Path) -> None:
    assert changes(tmp_path, base(layout), base(layout)) == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_changes_come_by_path_in_the_order_of_the_file(layout: str, tmp_path: Path) -> None:
    other = base(layout).set("procs[0].used[1].total", 300).set("procs[1023].status", 2)
    assert changes(tmp_path, base(layout), other.set("limit[2]", 9)) == [
        ("limit[2]", 0, 9),
        ("procs[0].used[1].total", 200, 300),
        ("procs[1023].status", 0, 2),
    ]


def test_texts_locks_and_padding(tmp_path: Path) -> None:
    other = base().set("uuids[0]", "GPU-b").set("sem", Semaphore(0, 2, 128))
    found = changes(tmp_path, base().set("uuids[0]", "GPU-a"), other.set("procs[5].unused[1]", 1))
    assert found == [
        ("sem", Semaphore(1, 0, 128), Semaphore(0, 2, 128)),
        ("uuids[0]", "GPU-a", "GPU-b"),
        ("procs[5].unused[1]", 0, 1),
    ]


def test_leftovers_behind_the_same_text_are_shown_as_bytes(tmp_path: Path) -> None:
    found = changes(tmp_path, base().set("uuids[0]", "G"), base().set("uuids[0]", b"G\0x"))
    assert found == [("uuids[0]", "47", "470078")]


def test_across_layouts_the_same_names_are_compared(tmp_path: Path) -> None:
    # Nothing lies where it lay: the values are the same.
    assert changes(tmp_path, base("v1-sem"), base("v1.2")) == [("minor_version", 1, 2)]


def test_what_one_layout_lacks_is_a_change_where_it_says_something(tmp_path: Path) -> None:
    found = changes(tmp_path, base("v0"), base("v1.2").set("procs[0].seqlock", 4))
    assert found == [
        ("major_version", None, 1),
        ("minor_version", None, 2),
        ("procs[0].seqlock", None, 4),
        ("last_kernel_time", None, 1_700_000_000),
        ("sem_postinit", None, Semaphore(1, 0, 128)),
    ]


def test_padding_is_not_compared_across_layouts(tmp_path: Path) -> None:
    found = changes(tmp_path, base("v1-sem").set("procs[0].unused[1]", 7), base("v1.2"))
    assert found == [("minor_version", 1, 2)]


def test_an_array_and_a_single_field_of_one_name_are_two_things(tmp_path: Path) -> None:
    one, many = note_variants(tmp_path / "layouts")
    sides = [
        load(
            CacheBuilder(layout).set(path, 7).write(tmp_path / layout.name),
            layout=layout.name,
            layouts=tmp_path / "layouts",
            engine="numpy",
        )
        for layout, path in ((one, "procs[0].note"), (many, "procs[0].note[0]"))
    ]
    found = compare(*sides)
    assert found == [Change("procs[0].note", 7, None), Change("procs[0].note[0]", None, 7)]


def test_numbers_have_a_delta() -> None:
    assert Change("limit[0]", 5, 3).delta == -2
    assert Change("uuids[0]", "a", "b").delta is None
    assert Change("procs[0].seqlock", None, 3).delta is None


def test_one_process_more_is_what_a_killed_golden_differs_in(tmp_path: Path) -> None:
    before = load(golden("v1.2--fresh").write(tmp_path))
    after = load(golden("v1.2--fresh-noinfo").write(tmp_path))
    found = document(before, after)
    assert found["a"] == {
        "file": str(tmp_path / "v1.2--fresh.cache"),
        "size": 2_008_953,
        "layout": "v1.2",
        "verdict": "identified",
    }
    by_place = {change["where"]: change for change in found["changes"]}
    assert by_place["device_num"] == {"where": "device_num", "before": 1, "after": 0}
