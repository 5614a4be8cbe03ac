"""``convert``: a new file, or one line that says by name why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hami_cache.cli.main import main
from hami_cache.testing import CacheBuilder

Output = pytest.CaptureFixture[str]


@pytest.fixture
def source(tmp_path: Path) -> str:
    return str(CacheBuilder("v1.2").process(7, memory=[1000]).write(tmp_path / "a.cache"))


def layout(path: Path, capsys: Output) -> str:
    capsys.readouterr()
    assert main(["identify", "--json", str(path)]) == 0
    name = json.loads(capsys.readouterr().out)["layout"]
    assert isinstance(name, str)
    return name


def test_there_and_back(source: str, tmp_path: Path, capsys: Output) -> None:
    there, back = tmp_path / "there.cache", tmp_path / "back.cache"
    assert main(["convert", source, str(there), "--to", "v1-sem"]) == 0
    assert capsys.readouterr().out == f"{there}: 2008985 bytes, v1.2 -> v1-sem\n"
    assert layout(there, capsys) == "v1-sem"
    assert main(["convert", str(there), "--to", "v1.2", str(back)]) == 0
    assert back.read_bytes() == Path(source).read_bytes()


def test_what_would_be_lost_is_named(source: str, tmp_path: Path, capsys: Output) -> None:
    target = tmp_path / "b.cache"
    assert main(["convert", source, str(target), "--to", "v1"]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "v1 has no place for procs.seqlock, sem_postinit" in error
    assert "--drop procs.seqlock --drop sem_postinit" in error
    assert not target.exists()
    drop = ["--drop", "procs.seqlock", "--drop", "sem_postinit"]
    assert main(["convert", source, str(target), "--to", "v1", *drop]) == 0
    assert layout(target, capsys) == "v1"


def test_nothing_is_written_in_place(source: str, capsys: Output) -> None:
    content = Path(source).read_bytes()
    assert main(["convert", source, source, "--to", "v1-sem"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert Path(source).read_bytes() == content


def test_an_unknown_layout_is_told(source: str, tmp_path: Path, capsys: Output) -> None:
    assert main(["convert", source, str(tmp_path / "b"), "--to", "v9"]) == 2
    assert "no layout is called 'v9'" in capsys.readouterr().err
