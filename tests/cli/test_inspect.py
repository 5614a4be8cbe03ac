"""``hami-cache inspect``: everything a file says, for people and machines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hami_cache.cli.main import main
from hami_cache.errors import one_line
from hami_cache.testing import CacheBuilder, Memory
from tests import goldens
from tests.cli.bad_inputs import OPENED, REFUSED, Make
from tests.goldens import LAYOUTS, Golden

Capture = pytest.CaptureFixture[str]
GIB = 1 << 30

KEYS = [
    "file", "size", "layout", "confidence", "verdict", "candidates", "header", "slots", "devices",
    "anomalies",
]  # fmt: skip


def inspected(capsys: Capture, *arguments: object) -> Any:
    assert main(["inspect", "--json", *map(str, arguments)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return json.loads(captured.out)


@pytest.mark.parametrize("one", goldens.params(lambda g: g.scenario in ("busy", "many", "oddlive")))
@pytest.mark.parametrize("options", [[], ["--offline"]], ids=["live", "offline"])
def test_json_is_the_documented_shape(
    one: Golden, options: list[str], tmp_path: Path, capsys: Capture
) -> None:
    path = one.write(tmp_path)
    found = inspected(capsys, *options, path)
    assert list(found) == KEYS
    assert (found["file"], found["size"], found["layout"]) == (str(path), len(one.data), one.layout)
    assert found["header"] == goldens.header(one.want)
    want = goldens.slots(one.want)
    assert [{k: v for k, v in s.items() if k != "consistent"} for s in found["slots"]] == want
    for device in found["devices"]:
        assert list(device) == ["index", "uuid", "limit", "sm_limit", "used", "sm_util"]
        assert list(device["used"]) == list(goldens.USED)
    for anomaly in found["anomalies"]:
        assert list(anomaly) == ["kind", "severity", "where", "detail"]


@pytest.mark.parametrize("one", goldens.params(lambda g: g.synthetic))
def test_a_forced_layout_is_read_whatever_the_evidence(
    one: Golden, tmp_path: Path, capsys: Capture
) -> None:
    found = inspected(capsys, "--layout", one.layout, one.write(tmp_path))
    assert found["layout"] == one.layout
    assert found["header"] == goldens.header(one.want)
    indices = [slot["index"] for slot in one.want["slots"]]
    assert [slot["index"] for slot in found["slots"]] == indices


def test_raw_numbers_are_whole(tmp_path: Path, capsys: Capture) -> None:
    """Up to 2^64 - 1, in bytes: nothing rounded, nothing signed."""
    memory = Memory(context=2**64 - 1, data=2**53 + 1)
    path = (
        CacheBuilder("v1.2")
        .device(limit=2**64 - 1)
        .process(71, memory=[memory])
        .write(tmp_path / "x.cache")
    )
    found = inspected(capsys, path)
    assert found["devices"][0]["limit"] == 2**64 - 1
    assert found["slots"][0]["used"][0] == {
        "context": 2**64 - 1, "module": 0, "data": 2**53 + 1, "offset": 0, "total": 2**53,
    }  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_people_get_tables(layout: str, tmp_path: Path, capsys: Capture) -> None:
    uuid = "GPU-609c8b6a-7f4e-4a45-9a40-cd2b4d13d1f2"
    builder = CacheBuilder(layout).device(uuid, limit=0).device(limit=4 * GIB)
    builder.process(71, memory=[Memory(context=300 << 20, data=GIB), 5 * GIB], sm_util=[35])
    builder.process(0, status=0, memory=[900])
    path = builder.write(tmp_path / "x.cache")
    assert main(["inspect", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    for text in (
        str(path), layout, "identified", uuid, "1.29 GiB", "5.00 GiB", "unset", "over_limit",
        "limit_unset", "exited_slot", "proc_num", "100071",
    ):  # fmt: skip
        assert text in captured.out, text
    assert "\x1b" not in captured.out


def test_people_see_tenant_text_escaped(tmp_path: Path, capsys: Capture) -> None:
    builder = CacheBuilder("v1.2").device("GPU-[bold red]x[/]").device().process(71)
    path = builder.set("uuids[1]", "\x1b]0;owned\x07").write(tmp_path / "x\x1b[2J.cache")
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert "GPU-[bold red]x[/]" in out
    assert "\x1b" not in out
    assert "\x07" not in out


@pytest.mark.parametrize(("make", "words"), [*OPENED.values(), *REFUSED.values()])
@pytest.mark.parametrize("options", [[], ["--json"], ["--offline"]], ids=["plain", "json", "off"])
def test_bad_input_is_one_line(
    make: Make, words: str, options: list[str], tmp_path: Path, capsys: Capture
) -> None:
    path = make(tmp_path)
    assert main(["inspect", *options, str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"hami-cache: {one_line(str(path))}: ")
    assert words in line


@pytest.mark.parametrize(("make", "words"), OPENED.values(), ids=OPENED.keys())
def test_bad_input_that_was_looked_into_still_has_json(
    make: Make, words: str, tmp_path: Path, capsys: Capture
) -> None:
    path = make(tmp_path)
    assert main(["inspect", "--json", str(path)]) == 2
    found = json.loads(capsys.readouterr().out)
    assert list(found) == KEYS
    assert (found["size"], found["layout"], found["header"]) == (path.stat().st_size, None, None)
    assert found["slots"] == found["devices"] == []
    (anomaly,) = found["anomalies"]
    kinds = {"not_initialised": "not_initialised", "unknown": "layout_unverified"}
    truncated = words.startswith("truncated")
    assert anomaly["kind"] == ("truncated" if truncated else kinds[found["verdict"]])


@pytest.mark.parametrize(("make", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_input_that_was_not_opened_has_no_json(
    make: Make, words: str, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["inspect", "--json", str(make(tmp_path))]) == 2
    assert capsys.readouterr().out == ""


def test_an_unknown_layout_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    path = CacheBuilder("v1.2").write(tmp_path / "x.cache")
    assert main(["inspect", "--layout", "v9", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("hami-cache: no layout is called 'v9'; known: v0-legacy, v0, v1,")


def test_a_forced_layout_that_is_too_long_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    path = CacheBuilder("v0").write(tmp_path / "x.cache")
    assert main(["inspect", "--layout", "v1.2", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "1197897 bytes are too few" in line


def test_the_installed_command_does_the_same(tmp_path: Path) -> None:
    path = goldens.golden("v1-sem--busy").write(tmp_path)
    command = Path(sys.executable).with_name("hami-cache")
    result = subprocess.run(
        [command, "inspect", "--json", path], capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["layout"] == "v1-sem"
