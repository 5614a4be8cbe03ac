"""docs/layout-tools.md lists what there is; its examples are run by tests/docs."""

from __future__ import annotations

import re
from pathlib import Path

from hami_cache.toolkit.render import TARGETS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "layout-tools.md").read_text()


def test_every_target_is_listed() -> None:
    section = PAGE.split("## Reading a layout")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(TARGETS)
