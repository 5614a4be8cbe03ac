"""``hami-cache layout list`` and ``show``: the compiler's offsets, for people and machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hami_cache.cli.main import main
from hami_cache.spec import registry
from tests.goldens import LAYOUTS
from tests.spec.test_abi import abi

Capture = pytest.CaptureFixture[str]


def shown(capsys: Capture, *arguments: str) -> Any:
    assert main(["layout", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", LAYOUTS)
def test_show_is_the_compilers_table(name: str, capsys: Capture) -> None:
    found, want = shown(capsys, "show", name), abi(name)
    assert list(found) == ["name", "sizeof", "alignof", "structs"]
    assert (found["name"], found["alignof"]) == (name, 8)
    assert found["sizeof"] == want["constants"]["SHARED_REGION_SIZE_MAGIC"]
    for struct in want["structs"].values():
        for field in struct["fields"]:
            del field["elem_size"]
    assert found["structs"] == want["structs"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_show_prints_every_field_for_people(name: str, capsys: Capture) -> None:
    assert main(["layout", "show", name]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    for struct in abi(name)["structs"].values():
        for field in struct["fields"]:
            numbers = [str(field[key]) for key in ("offset", "size", "count", "align")]
            assert [field["name"], *field["type"].split(), *numbers] in rows


def test_v1s_region_table_is_the_known_one(capsys: Capture) -> None:
    fields = shown(capsys, "show", "v1")["structs"]["shared_region_t"]["fields"]
    assert {field["name"]: field["offset"] for field in fields} == {
        "initialized_flag": 0, "major_version": 4, "minor_version": 8, "sm_init_flag": 12,
        "owner_pid": 16, "sem": 24, "device_num": 56, "uuids": 64, "limit": 1600,
        "sm_limit": 1728, "procs": 1856, "proc_num": 2008896, "utilization_switch": 2008900,
        "recent_kernel": 2008904, "priority": 2008908, "last_kernel_time": 2008912,
        "unused": 2008920,
    }  # fmt: skip


def test_list_names_all_oldest_first(capsys: Capture) -> None:
    listed = shown(capsys, "list")
    assert [one["name"] for one in listed] == list(LAYOUTS)
    for one in listed:
        layout = registry.layout(one["name"])
        assert list(one) == [
            "name", "sizeof", "version", "seqlock", "since", "before", "releases", "changes",
            "path",
        ]  # fmt: skip
        assert one["sizeof"] == layout.sizeof
        assert one["path"] == str(layout.path)
    assert [one["version"] for one in listed] == [None, None, "1.1", "1.1", "1.1", "1.2"]


def test_list_prints_a_row_each_for_people(capsys: Capture) -> None:
    assert main(["layout", "list"]) == 0
    out = capsys.readouterr().out
    for layout in registry.layouts().values():
        assert any(
            line.split()[:2] == [layout.name, str(layout.sizeof)] for line in out.splitlines()
        )


@pytest.mark.parametrize("command", [["list"], ["show", "v1.2"]])
def test_a_bad_layout_file_is_one_line(command: list[str], tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "v1.3.toml").write_text('format = 1\nname = "v1.3"\n')
    assert main(["layout", *command, "--layouts", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"hami-cache: {tmp_path}/v1.3.toml: abi: is missing"


@pytest.mark.parametrize("command", [["list"], ["show", "v1.2"]])
def test_a_missing_folder_is_one_line(command: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert main(["layout", *command, "--layouts", str(tmp_path / "no")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot list the folder of layouts" in line


def test_an_unknown_name_is_one_line(capsys: Capture) -> None:
    assert main(["layout", "show", "v9"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no layout is called 'v9'" in line
