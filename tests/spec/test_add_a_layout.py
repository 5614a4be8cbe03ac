"""A layout is a file: with docs/add-a-layout.md's example in a folder, everything knows v1.3."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hami_cache
from hami_cache.cli.main import main
from hami_cache.spec.registry import FOLDER_VARIABLE
from hami_cache.testing import CacheBuilder, Memory
from tests.goldens import LAYOUTS, goldens

PAGE = Path(__file__).resolve().parents[2] / "docs" / "add-a-layout.md"
GIB = 1 << 30

Run = Callable[..., Any]


def block(language: str) -> str:
    """The one code block of a language in the page."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "my-layouts"
    made.mkdir()
    (made / "v1.3.toml").write_text(block("toml"))
    return made


@pytest.fixture
def cache(folder: Path, tmp_path: Path) -> Path:
    builder = CacheBuilder(hami_cache.layouts(folder)["v1.3"]).device().device()
    builder.process(71, memory=[Memory(context=300 << 20, data=GIB), 7], sm_util=[35])
    builder.process(72, memory=[Memory(data=GIB)]).set("procs[0].start_time", 1_700_000_000)
    return builder.write(tmp_path / "x.cache")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> Any:
        assert main([str(a) for a in arguments]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_commands_know_it(folder: Path, cache: Path, run: Run) -> None:
    options = ("--json", "--layouts", folder)
    found = run("identify", *options, cache)
    assert (found["verdict"], found["layout"]) == ("identified", "v1.3")
    inspected = run("inspect", *options, cache)
    assert inspected["devices"][0]["used"]["total"] == (300 << 20) + 2 * GIB
    assert inspected["devices"][0]["sm_util"] == 35
    assert [slot["consistent"] for slot in inspected["slots"]] == [True, True]
    listed = run("layout", "list", *options)
    assert [one["name"] for one in listed] == [*LAYOUTS, "v1.3"]
    shown = run("layout", "show", "v1.3", *options)
    slot = shown["structs"]["shrreg_proc_slot_t"]["fields"]
    assert {f["name"]: f["offset"] for f in slot}["start_time"] == 1928


def test_the_environment_variable_does_the_same(
    folder: Path, cache: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    assert run("identify", "--json", cache)["layout"] == "v1.3"
    assert "v1.3" in hami_cache.layouts()
    with hami_cache.open_cache(cache) as opened:
        assert opened.layout.name == "v1.3"


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_both_engines_read_it(folder: Path, cache: Path, engine: Any) -> None:
    with hami_cache.open_cache(cache, layouts=folder, engine=engine) as opened:
        snapshot = opened.snapshot()
    assert [slot.pid for slot in snapshot.slots] == [71, 72]
    assert snapshot.devices[0].used.context == 300 << 20
    assert snapshot.devices[1].used.total == 7


def test_native_figures_come_by_the_new_offsets(folder: Path, cache: Path) -> None:
    with hami_cache.open_cache(cache, layouts=folder) as opened:
        figures = hami_cache.read_figures([opened])
    column = hami_cache.FIGURES.index
    assert figures.values[0, 0, column("total")] == (300 << 20) + 2 * GIB
    assert figures.values[0, 0, column("sm_util")] == 35
    assert figures.reports[0]["stable"] == 2


def test_views_know_it(folder: Path, cache: Path) -> None:
    layout = hami_cache.layouts(folder)["v1.3"]
    data = cache.read_bytes()[: layout.sizeof]
    record = np.frombuffer(data, layout.dtype, 1)[0]
    assert record["procs"][0]["start_time"] == 1_700_000_000
    assert layout.dtype.itemsize == 2_017_144
    assert layout.construct.build(layout.construct.parse(data)) == data


def test_without_its_file_it_is_a_newer_minor(cache: Path) -> None:
    """And its slots do not lie where v1.2 has them, so it is not read."""
    found = hami_cache.identify(cache)
    assert (found.layout, found.verdict) == (None, "unknown")


def test_it_takes_no_file_from_the_other_layouts(folder: Path) -> None:
    for one in goldens():
        alone = hami_cache.identify(one.data)
        beside = hami_cache.identify(one.data, layouts=folder)
        assert (beside.verdict, beside.layout and beside.layout.name) == (
            alone.verdict,
            alone.layout and alone.layout.name,
        )


def test_a_layout_with_another_magic_is_no_candidate(folder: Path) -> None:
    file = folder / "v1.3.toml"
    file.write_text(file.read_text().replace("value = 19920718", "value = 20260101"))
    other = hami_cache.layouts(folder)["v1.3"]
    found = hami_cache.identify(CacheBuilder(other).process(71).build(), layouts=folder)
    assert [(found.layout, c.layout) for c in found.candidates] == [(other, "v1.3")]
    old = hami_cache.identify(CacheBuilder("v1.2").process(71).build(), layouts=folder)
    assert {c.layout for c in old.candidates} == set(LAYOUTS)
    cut = hami_cache.identify(CacheBuilder(other).resize(2_008_953).build(), layouts=folder)
    assert (cut.layout, cut.verdict) == (None, "unknown")
    assert "look like v1.3" in cut.detail


def test_a_file_of_the_folder_replaces_a_built_in_one(tmp_path: Path) -> None:
    text = hami_cache.layouts()["v1.2"].path.read_text()
    (tmp_path / "v1.2.toml").write_text(text.replace('since = "b69b1ea"', 'since = "mine"'))
    assert hami_cache.layouts(tmp_path)["v1.2"].upstream.since == "mine"
    assert hami_cache.layouts()["v1.2"].upstream.since == "b69b1ea"
