"""``hami-cache identify``: verdicts for people and machines, one line for what is no cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hami_cache.cli.main import main
from hami_cache.errors import one_line
from hami_cache.testing import CacheBuilder
from tests.cli.bad_inputs import OPENED, REFUSED, Make, symlink, symlink_loop
from tests.goldens import LAYOUTS, Golden, golden, params

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("one", params(lambda g: g.scenario in ("busy", "empty") or g.parties))
def test_json_has_the_documented_shape(one: Golden, tmp_path: Path, capsys: Capture) -> None:
    path = one.write(tmp_path)
    code = main(["identify", "--json", str(path)])
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert list(found) == ["file", "size", "layout", "confidence", "verdict", "candidates"]
    assert (found["file"], found["size"]) == (str(path), len(one.data))
    assert code == (0 if found["layout"] else 2)
    assert len(captured.err.splitlines()) == (0 if found["layout"] else 1)
    for candidate in found["candidates"]:
        assert list(candidate) == ["layout", "score", "evidence"]
        for item in candidate["evidence"]:
            assert list(item) == ["kind", "supports", "detail"]
            assert isinstance(item["supports"], bool)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_people_get_a_line_a_file(layout: str, tmp_path: Path, capsys: Capture) -> None:
    path = CacheBuilder(layout).process(71, memory=[1]).write(tmp_path / "x.cache")
    assert main(["identify", str(path)]) == 0
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    assert line.startswith(f"{path}: identified {layout} (")
    assert captured.err == ""


def test_verbose_shows_the_evidence_of_every_candidate(tmp_path: Path, capsys: Capture) -> None:
    path = golden("v1-sem--busy").write(tmp_path)
    assert main(["identify", "--verbose", str(path)]) == 0
    out = capsys.readouterr().out
    for layout in LAYOUTS:
        assert f"\n  {layout}: score " in out
    assert "\n    + slot_balance: " in out
    assert "\n    - text: uuids[0] holds 80000000000000000000000000000000..." in out


def test_many_files_one_bad(tmp_path: Path, capsys: Capture) -> None:
    """One line each; the bad ones are told apart, and cost nobody else the answer."""
    good = CacheBuilder("v0").process(71).write(tmp_path / "good.cache")
    short = tmp_path / "short.cache"
    short.write_bytes(b"x")
    missing = tmp_path / "missing.cache"
    assert main(["identify", "--json", str(missing), str(good), str(short)]) == 2
    captured = capsys.readouterr()
    assert [json.loads(line)["layout"] for line in captured.out.splitlines()] == ["v0", None]
    first, second = captured.err.splitlines()
    assert str(missing) in first
    assert str(short) in second


@pytest.mark.parametrize(("make", "words"), [*OPENED.values(), *REFUSED.values()])
@pytest.mark.parametrize("options", [[], ["--json"], ["--verbose"]], ids=["plain", "json", "v"])
def test_bad_input_is_one_line(
    make: Make, words: str, options: list[str], tmp_path: Path, capsys: Capture
) -> None:
    path = make(tmp_path)
    assert main(["identify", *options, str(path)]) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith(f"hami-cache: {one_line(str(path))}: ")
    assert words in line
    assert len(captured.out.splitlines()) <= 1 or "--verbose" in options


@pytest.mark.parametrize(("make", "words"), OPENED.values(), ids=OPENED.keys())
def test_bad_input_that_was_looked_into_still_has_json(
    make: Make, words: str, tmp_path: Path, capsys: Capture
) -> None:
    path = make(tmp_path)
    assert main(["identify", "--json", str(path)]) == 2
    found = json.loads(capsys.readouterr().out)
    assert (found["file"], found["size"]) == (str(path), path.stat().st_size)
    assert found["layout"] is None
    assert found["verdict"] in ("unknown", "not_initialised")


def test_follow_reads_the_target_and_still_refuses_a_loop(tmp_path: Path, capsys: Capture) -> None:
    assert main(["identify", "--follow", str(symlink(tmp_path))]) == 0
    assert "identified v1.2" in capsys.readouterr().out
    assert main(["identify", "--follow", str(symlink_loop(tmp_path))]) == 2
    assert "Too many levels of symbolic links" in capsys.readouterr().err


def test_follow_does_not_follow_to_a_fifo(tmp_path: Path, capsys: Capture) -> None:
    os.mkfifo(tmp_path / "fifo")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "fifo")
    assert main(["identify", "--follow", str(link)]) == 2
    assert "is a FIFO" in capsys.readouterr().err


AS_NOBODY = """
import os, sys
import hami_cache.cli.identify, hami_cache.cli.inspect, hami_cache.read.cache
from hami_cache.cli.main import main
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", ["identify", "inspect"])
def test_an_unreadable_file_is_one_line(command: str) -> None:
    """As an unprivileged user, whoever runs the tests."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = CacheBuilder("v1.2").process(71).write(Path(folder) / "x.cache")
        path.chmod(0)
        result = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, command, str(path)],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert result.stderr == f"hami-cache: {path}: cannot open: Permission denied\n"
    assert (result.returncode, result.stdout) == (2, "")


def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    path = CacheBuilder("v1.2").process(71).write(tmp_path / "x.cache")
    code = "from hami_cache.cli.main import main; main()"
    command = [sys.executable, "-c", code, "identify", *[str(path)] * 200]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run(
            command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60
        )
    finally:
        os.close(writing)
    assert result.stderr == ""


def test_wrong_usage_is_one_line(capsys: Capture) -> None:
    for arguments in (["identify"], ["identify", "--colour", "x"], ["identity", "x"]):
        assert main(arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("hami-cache: ")
        assert "--help" in line
