"""Layout files that the toolkit writes: read back as they were, and ready to use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hami_cache.errors import LayoutError
from hami_cache.spec import registry, specfile
from hami_cache.spec.layout import Layout, Version
from hami_cache.toolkit import draft
from hami_cache.toolkit.check import check
from hami_cache.toolkit.header import read_header
from hami_cache.toolkit.layoutfile import to_toml
from hami_cache.toolkit.shape import of_layout
from tests.toolkit.headers import EVERY_LAYOUT, header_of, replaced, write

KNOWN = registry.layouts()


def read_back(layout: Layout) -> Layout:
    return specfile.parse(to_toml(layout).encode(), layout.path)


def assert_same(one: Layout, other: Layout) -> None:
    for attribute in (
        "name",
        "order",
        "summary",
        "upstream",
        "abi",
        "identity",
        "seqlock",
        "structs",
    ):
        assert getattr(one, attribute) == getattr(other, attribute), attribute
    assert one.region == other.region
    assert list(one.structs) == list(other.structs)


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_a_layout_survives_its_file(layout: Layout) -> None:
    assert_same(read_back(layout), layout)


def test_awkward_texts_survive_the_file() -> None:
    awkward = 'quotes " and \\ and \n lines, \t tabs, \x7f and ü and 🙂'
    layout = replace(KNOWN["v1.2"], summary=awkward)
    assert read_back(layout).summary == awkward


def test_a_copy_has_the_version_of_its_name() -> None:
    made = draft.copy(KNOWN["v1.2"], "v1.3", KNOWN)
    assert made.identity.version == Version(1, 3)
    assert made.order == KNOWN["v1.2"].order + 1
    assert made.upstream.before == ""
    assert read_back(made).structs == KNOWN["v1.2"].structs
    assert read_back(draft.copy(KNOWN["v1.2"], "mine", KNOWN)).identity.version == Version(1, 2)
    assert read_back(draft.copy(KNOWN["v0"], "v0.5", KNOWN)).identity.version is None


@pytest.mark.parametrize("name", ["", "../v1", "a b", ".hidden", "v1/x"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(LayoutError, match="is no name for a layout"):
        draft.copy(KNOWN["v1"], name, KNOWN)


def test_a_taken_name() -> None:
    with pytest.raises(LayoutError, match="a layout is called v1 already"):
        draft.copy(KNOWN["v0"], "v1", KNOWN)


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_what_a_header_lacks_comes_from_the_other_layouts(tmp_path: Path, layout: Layout) -> None:
    """A layout forgotten and imported again means the same as before."""
    others = {name: other for name, other in KNOWN.items() if name != layout.name}
    shape = read_header(write(tmp_path, header_of(layout)), cc="none")
    base = check(shape, others).layout
    made = read_back(draft.from_shape(shape, base, "found", others))
    assert made.structs == layout.structs
    assert made.seqlock == layout.seqlock
    probes = [sorted(map(repr, one.identity.probes)) for one in (made, layout)]
    assert probes[0] == probes[1]
    assert replace(made.identity, probes=()) == replace(layout.identity, probes=())
    assert set(made.abi.architectures) == {"x86_64", "aarch64"}


def test_a_new_field_and_its_changes_are_described(tmp_path: Path) -> None:
    text = replaced(header_of(KNOWN["v1.2"]), "MINOR_VERSION 2", "MINOR_VERSION 3")
    text = replaced(text, "    uint64_t device_num;", "    double share;\n    uint64_t device_num;")
    shape = read_header(write(tmp_path, text), cc="none")
    made = read_back(draft.from_shape(shape, KNOWN["v1.2"], "v1.3", KNOWN))
    assert made.field("share").offset == 56
    assert made.field("share").ctype.kind == "text", "bytes that no reader interprets"
    assert made.identity.version == Version(1, 3)
    assert made.upstream.changes == "since v1.2: share added at 56, 8 bytes; 11 fields moved"
    assert "shared.h" in made.abi.witness


def test_what_no_reader_can_use_is_refused_by_its_key() -> None:
    shape = of_layout(KNOWN["v1.2"])
    fields = tuple(f for f in shape.region.fields if f.name != "sem_postinit")
    region = replace(shape.region, fields=fields[:5] + fields[6:])
    structs = {**shape.structs, region.name: region}
    made = draft.from_shape(
        replace(shape, region=region, structs=structs), KNOWN["v1.2"], "x", KNOWN
    )
    with pytest.raises(LayoutError, match="C places it at"):
        to_toml(made)
