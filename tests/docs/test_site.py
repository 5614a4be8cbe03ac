"""The site builds without one warning, links lead somewhere, and nothing of it is fetched."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("sphinx", "myst_parser", "furo")

pytestmark = pytest.mark.skipif(
    "CI" not in os.environ and not all(map(importlib.util.find_spec, NEEDED)),
    reason="the extra docs is not installed",
)


def build(docs: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Sphinx with every warning an error, as `make docs` has it."""
    command = [sys.executable, "-m", "sphinx", "-nW", "--keep-going", "-q", str(docs), str(site)]
    return subprocess.run(command, capture_output=True, text=True, timeout=110)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(ROOT / "docs", folder)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_in_the_navigation(site: Path) -> None:
    """That of the first page leads to all others."""
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    links = re.findall(r'<a class="reference internal" href="([\w-]+)\.html"', text(site, "index"))
    assert set(links) == pages


def test_nothing_is_fetched(site: Path) -> None:
    for page in site.glob("*.html"):
        loaded = re.findall(r"<(?:script|img|iframe|link)\b[^>]*", page.read_text())
        assert [tag for tag in loaded if re.search(r'(?:src|href)="(?:https?:)?//', tag)] == []


def test_layouts_are_led_to(site: Path) -> None:
    """By the anchors that the generated page makes itself."""
    page = text(site, "layouts")
    anchors = re.findall(r'href="#(layout-[\w-]+)"', page)
    assert anchors
    assert [anchor for anchor in anchors if f'id="{anchor}"' not in page] == []


def test_broken_links_break_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    shutil.copy(ROOT / "docs" / "conf.py", docs)
    (docs / "other.md").write_text("# Other\n")
    links = "[a](nowhere.md) [b](other.md#nothing) [c](#nor-here) [d](other.md#other)"
    (docs / "index.md").write_text(f"# Index\n\n{links}\n\n```{{toctree}}\nother\n```\n")
    built = build(docs, tmp_path / "site")
    assert built.returncode != 0
    targets = re.findall(r"not found.*'(.+?)' \[myst.xref_missing\]", built.stderr)
    assert sorted(targets) == ["nor-here", "nothing", "nowhere.md"]


def text(site: Path, page: str) -> str:
    return (site / f"{page}.html").read_text()
