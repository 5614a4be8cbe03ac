"""``inspect --field``: one value by its path."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hami_cache.cli.main import main
from hami_cache.testing import CacheBuilder

Output = pytest.CaptureFixture[str]


@pytest.fixture
def path(tmp_path: Path) -> str:
    builder = CacheBuilder("v1.2").device("GPU-\x1b", limit=(1 << 64) - 1)
    return str(builder.process(7, memory=[1000]).write(tmp_path / "a.cache"))


@pytest.mark.parametrize("engine", [[], ["--offline"]])
@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("procs[0].used[0].total", "1000"),
        ("procs[0].used[0].context_size", "0"),
        ("limit[0]", str((1 << 64) - 1)),
        ("uuids[0]", "GPU-\\x1b"),
        ("minor_version", "2"),
    ],
)
def test_a_value(engine: list[str], field: str, shown: str, path: str, capsys: Output) -> None:
    assert main(["inspect", *engine, "--field", field, path]) == 0
    assert capsys.readouterr().out == f"{shown}\n"


def test_an_array_and_a_struct(path: str, capsys: Output) -> None:
    assert main(["inspect", "--field", "limit", path]) == 0
    assert json.loads(capsys.readouterr().out)[1] == 0
    assert main(["inspect", "--field", "procs[0].used[0]", path]) == 0
    assert json.loads(capsys.readouterr().out)["data"] == 1000


def test_json_names_type_and_place(path: str, capsys: Output) -> None:
    assert main(["inspect", "--json", "--field", "procs[0].used[0].total", path]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "file": path,
        "layout": "v1.2",
        "field": "procs[0].used[0].total",
        "offset": 1896,
        "size": 8,
        "type": "_Atomic uint64_t",
        "value": 1000,
    }


@pytest.mark.parametrize("field", ["procs[1024].pid", "procs[0].nothing", "limit[x]", ""])
def test_a_field_that_is_not_there_is_told_in_one_line(
    field: str, path: str, capsys: Output
) -> None:
    assert main(["inspect", "--field", field, path]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
