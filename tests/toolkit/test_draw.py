"""The picture: well-formed, to scale where it says so, moved blocks joined, names escaped."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree.ElementTree import Element

import pytest

from hami_cache.spec import registry
from hami_cache.toolkit import draw, page
from hami_cache.toolkit.compare import Comparison, compare
from hami_cache.toolkit.shape import of_layout
from tests.goldens import LAYOUTS

KNOWN = registry.layouts()
SVG = "{http://www.w3.org/2000/svg}"


def between(before: str, after: str) -> Comparison:
    return compare(of_layout(KNOWN[before]), of_layout(KNOWN[after]))


def picture(comparison: Comparison) -> Element:
    return ElementTree.fromstring(draw.svg(comparison))


def blocks(root: Element) -> list[tuple[str, Element]]:
    """Every drawn block with the text that shows on it."""
    return [(group.findtext(f"{SVG}title") or "", group) for group in root.iter(f"{SVG}g")]


def rectangle(group: Element) -> dict[str, float]:
    [rect] = group.findall(f"{SVG}rect")
    return {key: float(rect.get(key, "")) for key in ("x", "y", "width", "height")}


@pytest.mark.parametrize("before", LAYOUTS)
@pytest.mark.parametrize("after", LAYOUTS)
def test_every_pair_is_drawn_inside_its_frame(before: str, after: str) -> None:
    root = picture(between(before, after))
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    assert height < 3000
    for tip, group in blocks(root):
        place = rectangle(group)
        assert place["x"] >= 0 and place["x"] + place["width"] <= width, tip
        assert place["y"] >= 0 and place["y"] + place["height"] <= height, tip
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.get("x", "")) <= width
        assert 0 <= float(text.get("y", "")) <= height


@pytest.mark.parametrize("name", LAYOUTS)
def test_short_fields_are_to_scale_and_long_ones_torn(name: str) -> None:
    struct = KNOWN[name].region
    root = picture(compare(of_layout(KNOWN[name]), of_layout(KNOWN[name])))
    scales = set()
    for tip, group in blocks(root):
        match = re.match(r"\w+: .*, (\d+) bytes at \d+$", tip)
        assert match is not None
        size = int(match[1])
        torn = len(group.findall(f"{SVG}polygon")) == 1
        assert torn == (size > draw.CUT_BYTES)
        if not torn:
            scales.add(round(rectangle(group)["height"] / size, 6))
    assert len(blocks(root)) == 2 * len(struct.fields)
    assert len(scales) == 1


def test_columns_have_no_overlap() -> None:
    root = picture(between("v1-sem", "v1.2"))
    columns: dict[float, list[tuple[float, float]]] = {}
    for _, group in blocks(root):
        place = rectangle(group)
        columns.setdefault(place["x"], []).append((place["y"], place["y"] + place["height"]))
    assert len(columns) == 2
    for spans in columns.values():
        ordered = sorted(spans)
        for (_, end), (start, _) in itertools.pairwise(ordered):
            assert start >= end - 1e-6


def test_moved_blocks_are_joined_from_edge_to_edge() -> None:
    comparison = between("v1-sem", "v1.2")
    root = picture(comparison)
    places = {
        (tip.split(":")[0], side): rectangle(group)
        for tip, group in blocks(root)
        for side in ("left", "right")
        if (rectangle(group)["x"] == draw.LEFT) == (side == "left")
    }
    bands = [p.get("points", "") for p in root.findall(f"{SVG}polygon")]
    ends = [[tuple(map(float, c.split(","))) for c in band.split()] for band in bands]
    moved = [c for c in comparison.breaking if "moved" in c.kinds]
    assert moved
    for change in moved:
        name = change.path.split(".")[-1]
        left, right = places[name, "left"], places[name, "right"]
        expected = [
            (draw.LEFT + draw.BLOCK_WIDTH, left["y"]),
            (draw.RIGHT, right["y"]),
            (draw.RIGHT, right["y"] + right["height"]),
            (draw.LEFT + draw.BLOCK_WIDTH, left["y"] + left["height"]),
        ]
        assert expected in ends, name


def test_what_cannot_be_told_apart_says_so() -> None:
    assert draw.WARNING in draw.svg(between("v1", "v1-seqlock"))
    assert draw.WARNING not in draw.svg(between("v1", "v1.2"))
    assert draw.WARNING in page.html(between("v1", "v1-seqlock"))


def test_blocks_carry_what_became_of_them() -> None:
    text = draw.svg(between("v0-legacy", "v0"))
    assert "moved +384" in text
    assert "784 → 1168 bytes each" in text
    assert "not there" in text
    assert draw.COLOURS["added"][0] in text


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


def test_the_page_needs_nothing_else_and_trusts_no_name() -> None:
    shape = of_layout(KNOWN["v1"])
    evil = '"><script>alert(1)</script>'
    fields = tuple(replace(f, name=evil) if f.name == "sem" else f for f in shape.region.fields)
    region = replace(shape.region, fields=fields, name=evil)
    after = replace(shape, name=evil, region=region, structs={**shape.structs, evil: region})
    comparison = compare(shape, after)
    text = page.html(comparison)
    parser = _Tags()
    parser.feed(text)
    assert "script" not in parser.tags
    assert not {"link", "img", "iframe"} & set(parser.tags)
    assert "renamed sem to" in text
    ElementTree.fromstring(draw.svg(comparison))


def test_the_page_of_equal_layouts() -> None:
    assert "Every field lies at the same place." in page.html(between("v1", "v1"))
