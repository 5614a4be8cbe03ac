"""docs/threat-model.md names the test of every claim, and those tests exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text()


def test_every_named_test_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)
    assert len(named) > 30
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE)
    ]
    assert missing == []


def test_every_threat_has_a_test() -> None:
    for table in re.findall(r"^\| threat \|.*\n\|-.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE):
        for row in table.splitlines():
            assert re.search(r"::test_\w+` \|$", row), row
