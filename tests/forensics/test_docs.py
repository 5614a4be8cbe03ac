"""The examples in docs/forensics.md do what they say."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hami_cache.cli.main import main
from hami_cache.testing import CacheBuilder

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "forensics.md").read_text()
Output = pytest.CaptureFixture[str]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    CacheBuilder("v1-sem").process(7, memory=[1000]).write("before.cache")
    CacheBuilder("v1.2").process(7, memory=[600]).write("after.cache")
    CacheBuilder("v1.2").process(7, memory=[1000]).write("x.cache")
    return tmp_path


def block(language: str, start: str) -> str:
    """The code block of that language that begins so."""
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    return next(text for text in found if text.startswith(start))


def test_python(files: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", block("python", "from hami_cache")], capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "utilization_not_measured procs[0].device_util" in ran.stdout


def test_diff(files: Path, capsys: Output) -> None:
    command, _, shown = block("", "$ hami-cache diff").partition("\n")
    assert main(shlex.split(command)[2:]) == 1
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    expected = [line.split() for line in shown.splitlines()]
    assert [w for w in expected if w and "───" not in w[0]] == [
        w for w in words if w and "───" not in w[0]
    ]


def test_convert(files: Path, capsys: Output) -> None:
    lines = block("", "$ hami-cache convert").splitlines()
    assert main(shlex.split(lines[0])[2:]) == 2
    assert capsys.readouterr().err.rstrip() == lines[1]
    assert main(shlex.split(lines[2])[2:]) == 0
    assert capsys.readouterr().out.rstrip() == lines[3]
