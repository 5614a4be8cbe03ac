"""docs/layout-tools.md lists what there is, and its CI job checks; tests/docs runs its examples."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hami_cache.spec import registry
from hami_cache.toolkit.render import TARGETS
from tests.docs.examples import blocks, environment
from tests.toolkit.headers import CC, header_of, needs_cc, replaced

PAGE = Path(__file__).resolve().parents[2] / "docs" / "layout-tools.md"


def block(language: str) -> str:
    """The one code block of a language in the page."""
    [text] = [block.text for block in blocks(PAGE) if block.language == language]
    return text


def test_every_target_is_listed() -> None:
    section = PAGE.read_text().split("## Reading a layout")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(TARGETS)


@needs_cc
@pytest.mark.parametrize("meant", [True, False])
def test_the_makefile_fails_for_a_change_of_the_struct_and_only_then(
    meant: bool, tmp_path: Path
) -> None:
    (tmp_path / "Makefile").write_text(block("make"))
    header = tmp_path / "src" / "multiprocess" / "multiprocess_memory_limit.h"
    header.parent.mkdir(parents=True)
    text = header_of(registry.layout("v1.2"))
    if not meant:
        text = replaced(text, "    uint64_t device_num;", "    uint64_t flags, device_num;")
    header.write_text(text)
    [command] = re.findall(r"run: (make .*CC=gcc)$", block("yaml"), re.MULTILINE)
    ran = subprocess.run(
        command.replace("gcc", CC).split(), cwd=tmp_path, env=environment(tmp_path),
        capture_output=True, text=True,
    )  # fmt: skip
    assert (ran.returncode == 0) is meant, ran.stdout + ran.stderr
    assert ("NOT BUMPED" in ran.stdout) is not meant
