"""Pictures of recordings: real PNG and SVG files, with gaps, bounds and any tenant's names."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from hami_cache.errors import ConfigError
from hami_cache.forensics.extras import needed
from hami_cache.forensics.history_plot import MOST, draw
from hami_cache.forensics.history_series import NAN, Series

GIB = float(1 << 30)


def series(name: str, used: list[float], times: list[float] | None = None) -> Series:
    times = times or [1_700_000_000.0 + second for second in range(len(used))]
    return Series(name, 0, times, used, [4 * GIB] * len(used), [50.0] * len(used))


def has_colour(path: Path, colour: tuple[int, int, int]) -> bool:
    image = needed("matplotlib.image", "plot").imread(path)
    return bool(((image[:, :, :3] * 255).round() == colour).all(axis=2).any())


def test_a_png(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    assert draw([series("a", [GIB, 2 * GIB, NAN, GIB])], path) == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert has_colour(path, (31, 119, 180))  # the first line's


def test_an_svg_is_well_formed_whatever_the_names(tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    names = [
        "_hidden",
        "$x^{",
        "<script>alert(1)</script>",
        "a\n\x00b",
        "\udc80",
        "漢字",
        "n" * 999,
    ]
    assert draw([series(name, [GIB]) for name in names], path) == 0
    root = ElementTree.parse(path).getroot()
    assert root.tag.endswith("svg")
    assert not [element for element in root.iter() if element.tag.endswith("script")]
    shown = path.read_text()
    assert "device 0 of _hidden" in shown and "device 0 of $x^{" in shown
    assert "漢字" not in shown and "\\u6f22" in shown


def test_only_the_highest_are_drawn(tmp_path: Path) -> None:
    many = [series(f"cache-{index:02}", [index * GIB]) for index in range(MOST + 3)]
    path = tmp_path / "x.svg"
    assert draw(many, path) == 3
    shown = path.read_text()
    assert "cache-03" in shown and "cache-22" in shown and "cache-02" not in shown


def test_a_line_breaks_where_the_recorder_did_not_run(tmp_path: Path) -> None:
    times = [0.0, 1.0, 2.0, 100.0, 101.0]
    whole, broken = tmp_path / "whole.svg", tmp_path / "broken.svg"
    draw([series("a", [GIB] * 5)], whole)
    draw([series("a", [GIB] * 5, times)], broken)
    moves = [path.read_text().count("M ") for path in (whole, broken)]
    assert moves[1] >= moves[0] + 3  # memory, limit and utilization


def test_nothing_to_draw(tmp_path: Path) -> None:
    assert draw([], tmp_path / "x.png") == 0
    assert draw([series("a", [NAN])], tmp_path / "y.png") == 0


@pytest.mark.parametrize(
    ("name", "reason"), [("x.gif", "ends with .png or .svg"), ("no/x.png", "cannot write")]
)
def test_what_cannot_be_drawn(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        draw([series("a", [GIB])], tmp_path / name)
