"""Conversions: whatever goes over comes back, and what cannot go over is refused by name."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from hami_cache.errors import FieldError, SourceError
from hami_cache.forensics.convert import convert, write_new
from hami_cache.forensics.diff import compare
from hami_cache.forensics.image import Image, load
from hami_cache.spec import registry
from hami_cache.spec.layout import Layout
from hami_cache.testing import CacheBuilder, Memory
from tests.forensics.variants import narrow_variant, note_variants
from tests.goldens import LAYOUTS, Golden, golden, params

VERSIONS = {"major_version", "minor_version"}
LACKING = {
    "v0-legacy": ["procs.device_util.sm"],
    "v0": ["last_kernel_time"],
    "v1": ["procs.seqlock"],
    "v1-seqlock": ["sem_postinit"],
    "v1-sem": [],
    "v1.2": [],
}
"""What a layout lacks and the next newer one has: what a conversion back to it refuses."""


def describe(layout: str) -> CacheBuilder:
    """A file with something in every logical field that the layout has."""
    builder = CacheBuilder(layout, priority=3, recent_kernel=5).device().device("MIG-1", 0, 70)
    builder.process(
        7, 4711, memory=[Memory(1, 2, 3), Memory(4, 5, 6)], sm_util=[5, 6], monitorused=[7, 8]
    )
    builder.process(9, status=2, memory=[(1 << 64) - 5], index=3)
    builder.process(8, memory=[1], index=1023).set("proc_num", 4)
    return builder.set("owner_pid", 1 << 40)


def image(folder: Path, builder: CacheBuilder) -> Image:
    return load(builder.write(folder / "source.cache"), layout=builder.layout.name, engine="numpy")


def reread(folder: Path, data: bytes, layout: Layout) -> Image:
    path = folder / f"{layout.name}.cache"
    path.write_bytes(data)
    return load(path, layout=layout.name, layouts=layout.path.parent, engine="numpy")


def lost(source: str, target: str) -> list[str]:
    """The fields that `describe(source)` fills and `target` lacks."""
    between = LAYOUTS[LAYOUTS.index(target) : LAYOUTS.index(source)]
    return [name for layout in between for name in LACKING[layout]]


@pytest.mark.parametrize(("source", "target"), list(product(LAYOUTS, LAYOUTS)))
def test_every_pair_of_layouts_goes_there_and_back(
    source: str, target: str, tmp_path: Path
) -> None:
    known = registry.layouts()
    before = image(tmp_path, describe(source))
    drop = lost(source, target)
    there = reread(tmp_path, convert(before, known[target], drop), known[target])
    changed = {change.where for change in compare(before, there)} - VERSIONS
    assert {name.split("[")[0].split(".")[0] for name in changed} == {
        name.split(".")[0] for name in drop
    }
    back = convert(there, known[source])
    if not drop:
        assert back == before.data + before.tail


@pytest.mark.parametrize(("source", "target"), list(product(LAYOUTS, LAYOUTS)))
def test_what_the_target_lacks_is_refused_by_name(source: str, target: str, tmp_path: Path) -> None:
    before = image(tmp_path, describe(source))
    missing = lost(source, target)
    if not missing:
        return
    with pytest.raises(FieldError) as refusal:
        convert(before, registry.layout(target), missing[1:])
    assert missing[0] in str(refusal.value)
    assert f"--drop {missing[0]}" in str(refusal.value)


@pytest.mark.parametrize("one", params(lambda g: g.plain and g.layout in ("v1-sem", "v1.2")))
def test_goldens_go_there_and_back(one: Golden, tmp_path: Path) -> None:
    other = registry.layout({"v1-sem": "v1.2", "v1.2": "v1-sem"}[one.layout])
    before = load(one.write(tmp_path), layout=one.layout, engine="numpy")
    there = reread(tmp_path, convert(before, other), other)
    assert {change.where for change in compare(before, there)} == {"minor_version"}
    assert convert(there, before.layout) == before.data + before.tail


def test_a_converted_file_is_identified_as_what_it_is_now(tmp_path: Path) -> None:
    target = registry.layout("v1.2")
    path = tmp_path / "x.cache"
    path.write_bytes(convert(image(tmp_path, CacheBuilder("v0").process(7, memory=[9])), target))
    assert load(path).found.layout is target


def test_padding_that_holds_something_is_refused(tmp_path: Path) -> None:
    before = image(tmp_path, CacheBuilder("v1.2").set("procs[2].unused[1]", 7))
    with pytest.raises(FieldError, match=r"procs\[2\]\.unused\[1\]"):
        convert(before, registry.layout("v1-sem"))
    assert convert(before, registry.layout("v1-sem"), ["procs.unused"])


def test_bytes_without_a_name_are_refused(tmp_path: Path) -> None:
    gap = CacheBuilder("v1.2").layout.field("procs[0].status").offset + 4
    with pytest.raises(FieldError, match=f"offset {gap}: bytes that no field explains"):
        convert(image(tmp_path, CacheBuilder("v1.2").patch(gap, b"x")), registry.layout("v1-sem"))


def test_bytes_beyond_the_region_are_refused(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2")
    builder.patch(builder.layout.sizeof, b"x")
    with pytest.raises(FieldError, match="beyond the region"):
        convert(image(tmp_path, builder), registry.layout("v1-sem"))


def test_a_version_that_no_layout_has_is_refused(tmp_path: Path) -> None:
    before = image(tmp_path, CacheBuilder("v1.2").set("minor_version", 3))
    with pytest.raises(FieldError, match="minor_version"):
        convert(before, registry.layout("v1-sem"))


def test_a_field_to_drop_must_exist(tmp_path: Path) -> None:
    with pytest.raises(FieldError, match="seqlok"):
        convert(image(tmp_path, CacheBuilder("v1.2")), registry.layout("v1"), ["procs.seqlok"])


def test_two_layouts_in_one_file_are_not_taken_for_one(tmp_path: Path) -> None:
    path = golden("v1.2--mixed-v1-then-v1.2").write(tmp_path)
    with pytest.raises(FieldError, match=r"v1 and v1\.2"):
        convert(load(path), registry.layout("v1.2"))


@pytest.fixture
def narrow(tmp_path: Path) -> Layout:
    return narrow_variant(tmp_path / "layouts")


def test_narrower_fields_take_what_fits(narrow: Layout, tmp_path: Path) -> None:
    before = image(tmp_path, CacheBuilder("v1.2").process(7, memory=[9], index=1022))
    there = reread(tmp_path, convert(before, narrow), narrow)
    assert compare(before, there) == []
    assert convert(there, before.layout) == before.data + before.tail


@pytest.mark.parametrize(
    ("field", "value"),
    [("uuids[3]", "G" * 89), ("procs[1023].pid", 1), ("priority", -1)],
)
def test_narrower_fields_refuse_what_does_not_fit(
    field: str, value: int | str, narrow: Layout, tmp_path: Path
) -> None:
    with pytest.raises(FieldError) as refusal:
        convert(image(tmp_path, CacheBuilder("v1.2").set(field, value)), narrow)
    assert refusal.value.field == field


def test_an_array_does_not_fit_into_a_single_field(tmp_path: Path) -> None:
    one, many = note_variants(tmp_path / "layouts")
    path = CacheBuilder(one).set("procs[0].note", 7).write(tmp_path / "x.cache")
    source = load(path, layout="one", layouts=tmp_path / "layouts", engine="numpy")
    with pytest.raises(FieldError, match=r"procs\.note"):
        convert(source, many)


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    path.write_bytes(b"mine")
    with pytest.raises(SourceError, match="exists already"):
        write_new(path, b"other")
    assert path.read_bytes() == b"mine"


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(SourceError, match="exists already"):
        write_new(tmp_path / "link", b"other")
    assert not (tmp_path / "target").exists()


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        write_new(tmp_path / "nowhere" / "x.cache", b"")


def test_nothing_is_left_where_the_disk_is_full() -> None:
    with pytest.raises(SourceError, match="exists already"):
        write_new("/dev/full", b"x")
