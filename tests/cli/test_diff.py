"""``diff``: rows for people, one document for machines, an exit code for scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hami_cache.cli.main import main
from hami_cache.testing import CacheBuilder

Output = pytest.CaptureFixture[str]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    before = CacheBuilder("v1-sem").process(7, memory=[1000])
    after = CacheBuilder("v1.2").process(7, memory=[600]).set("uuids[0]", "GPU-\x1b[31m")
    return str(before.write(tmp_path / "a.cache")), str(after.write(tmp_path / "b.cache"))


def test_nothing_differs(pair: tuple[str, str], capsys: Output) -> None:
    assert main(["diff", pair[0], pair[0]]) == 0
    assert "No field differs." in capsys.readouterr().out


def test_rows(pair: tuple[str, str], capsys: Output) -> None:
    assert main(["diff", *pair]) == 1
    shown = capsys.readouterr().out
    rows = {row.split()[0]: row.split()[1:] for row in shown.splitlines() if row.split()}
    assert shown.startswith(f"- {pair[0]}: v1-sem, identified, 2008985 bytes\n+ {pair[1]}: v1.2")
    assert rows["procs[0].used[0].total"] == ["1000", "600", "-400"]
    assert rows["minor_version"] == ["1", "2", "+1"]
    assert rows["uuids[0]"][-1] == "GPU-\\x1b[31m"


def test_json(pair: tuple[str, str], capsys: Output) -> None:
    assert main(["diff", "--json", *pair]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["a"]["layout"], found["b"]["layout"]) == ("v1-sem", "v1.2")
    assert {"where": "procs[0].used[0].data", "before": 1000, "after": 600} in found["changes"]
    assert main(["diff", "--json", pair[0], pair[0]]) == 0
    assert json.loads(capsys.readouterr().out)["changes"] == []


def test_a_layout_can_be_asked_for(pair: tuple[str, str], capsys: Output) -> None:
    assert main(["diff", "--json", "--layout", "v1.2", pair[1], pair[1]]) == 0
    assert json.loads(capsys.readouterr().out)["a"]["layout"] == "v1.2"


def test_a_file_that_cannot_be_read_is_told_in_one_line(
    pair: tuple[str, str], tmp_path: Path, capsys: Output
) -> None:
    assert main(["diff", pair[0], str(tmp_path / "gone")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
