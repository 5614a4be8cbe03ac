"""``report``: one page, written whole; what could not be opened is said and is on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hami_cache.cli.main import main
from hami_cache.testing import CacheBuilder

Output = pytest.CaptureFixture[str]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    builder = CacheBuilder("v1.2").process(7, 100_007, memory=[1 << 30], sm_util=[1])
    return builder.write(tmp_path / "x.cache")


def test_a_page_about_some_files(cache: Path, tmp_path: Path, capsys: Output) -> None:
    page = tmp_path / "new" / "page.html"
    assert main(["report", str(cache), str(cache), "--html", str(page)]) == 0
    assert capsys.readouterr() == ("", "")
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>") and text.endswith("</html>\n")
    assert "<h1>2 cache files</h1>" in text


def test_what_could_not_be_opened_is_on_the_page_too(
    cache: Path, tmp_path: Path, capsys: Output
) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path / "no"), str(cache), "--html", str(page)]) == 2
    assert (
        capsys.readouterr().err
        == f"hami-cache: {tmp_path}/no: cannot open: No such file or directory\n"
    )
    assert "cannot open: No such file or directory" in page.read_text()


def test_options_reach_the_judgement(cache: Path, tmp_path: Path) -> None:
    page, proc = tmp_path / "page.html", tmp_path / "proc"
    proc.mkdir()
    argv = ["report", str(cache), "--html", str(page), "--offline", "--host-proc", str(proc)]
    assert main([*argv, "--now", "2001-01-01"]) == 0
    assert "last_kernel_in_future" in page.read_text() and "dead_process" in page.read_text()


def test_a_link_is_followed_only_when_asked(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(cache)
    argv = ["report", str(tmp_path / "link"), "--html", str(tmp_path / "page.html")]
    assert main(argv) == 2
    assert main([*argv, "--follow"]) == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "Missing option '--html'"),
        (["--html", "/proc/no/page.html"], "cannot write"),
        (["--html", "x.html", "--host-proc", "/nowhere"], "is not a directory"),
        (["--html", "x.html", "--layouts", "/nowhere"], "cannot list the folder of layouts"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    cache: Path, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch,
    options: list[str], reason: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(cache), *options]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1 and reason in err
    assert not (tmp_path / "x.html").exists()
