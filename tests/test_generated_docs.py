"""Pages that are generated from data are fresh, and links between pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hami_cache.spec import registry
from hami_cache.toolkit import markdown

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_the_layouts_page_is_fresh() -> None:
    """Else: python -m hami_cache.toolkit.markdown."""
    assert (DOCS / "layouts.md").read_text() == markdown.page(registry.layouts().values())
    assert markdown.main(["--check"]) == 0


def test_a_stale_page_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "layouts.md"
    assert markdown.main(["--check", str(page)]) == 1
    assert markdown.main([str(page)]) == 0
    assert markdown.main(["--check", str(page)]) == 0
    page.write_text(page.read_text() + "more")
    assert markdown.main(["--check", str(page)]) == 1
    assert "stale" in capsys.readouterr().err


def test_the_page_says_all_a_layout_file_says() -> None:
    text = markdown.page(registry.layouts().values())
    for layout in registry.layouts().values():
        section = text.partition(f"</a>{layout.name}\n")[2].partition("\n## ")[0]
        assert layout.summary in section
        for commit in (*layout.upstream.commits, layout.upstream.since):
            assert commit in section
        for probe in layout.identity.probes:
            assert f"| {probe.kind} |" in section
        for struct in layout.structs.values():
            table = section.partition(f"### {struct.name}: {struct.sizeof} bytes")[2]
            table = table.partition("\n### ")[0]
            for field in struct.fields:
                assert f"| {field.offset} | {field.size} | `{field.name}` |" in table
            sizes = [int(row.split("|")[2]) for row in table.splitlines() if row[:3] > "| -"
                     and row[2:3].isdigit()]  # fmt: skip
            assert sum(sizes) == struct.sizeof


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", text):
        assert (page.parent / target).exists(), target
    for anchor in re.findall(r"\]\(#([^)\s]+)\)", text):
        headings = {_slug(line) for line in text.splitlines() if line.startswith("#")}
        assert f'id="{anchor}"' in text or anchor in headings, anchor


def _slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower())
    return text.replace(" ", "-")
