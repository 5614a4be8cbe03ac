"""``hami-cache --version``: which program somebody runs."""

from __future__ import annotations

import json
import platform
import sys
from importlib.metadata import Distribution, version
from pathlib import Path

import pytest

from hami_cache.cli.main import main
from hami_cache.cli.version import version_text
from hami_cache.read import seqlock

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HAMI_CACHE_REVISION", "HAMI_CACHE_BUILD_DATE"):
        monkeypatch.delenv(name, raising=False)


def facts() -> dict[str, str]:
    _, *lines = version_text().splitlines()
    return dict(line.split(": ", 1) for line in lines)


def test_it_says_version_python_and_the_native_reader(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and out == version_text() + "\n"
    assert out.splitlines()[0] == f"hami-cache {version('hami-cache')}"
    assert facts()["python"] == f"{platform.python_version()} ({platform.python_implementation()})"
    native = Path(facts()["native reader"])
    assert native.samefile(str(seqlock.lib.__name__ and sys.modules["hami_cache._reader"].__file__))


def test_an_image_says_what_it_was_built_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAMI_CACHE_REVISION", "0123abc")
    monkeypatch.setenv("HAMI_CACHE_BUILD_DATE", "2026-01-02T03:04:05Z")
    assert (facts()["revision"], facts()["built"]) == ("0123abc", "2026-01-02T03:04:05Z")


@pytest.mark.parametrize(
    ("recorded", "revision"),
    [
        ({"url": "https://x", "vcs_info": {"vcs": "git", "commit_id": "beef"}}, "beef"),
        ({"url": "file:///work", "dir_info": {"editable": True}}, "unknown"),
        (None, "unknown"),
    ],
)
def test_else_pip_knows_the_commit_it_installed(
    recorded: object, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = None if recorded is None else json.dumps(recorded)
    monkeypatch.setattr(Installed, "text", text)
    monkeypatch.setattr("hami_cache.cli.version.distribution", lambda name: Installed())
    assert (facts()["revision"], facts()["built"]) == (revision, "unknown")


class Installed(Distribution):
    """A package as pip left it."""

    text: str | None = None

    def read_text(self, filename: str) -> str | None:
        return self.text if filename == "direct_url.json" else None

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError


def test_a_reader_that_is_missing_or_broken_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hami_cache.cli.version.find_spec", lambda name: None)
    assert facts()["native reader"].startswith("missing: reinstall")
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "hami_cache.read.seqlock", None)
    assert facts()["native reader"].startswith("cannot be loaded: ")
