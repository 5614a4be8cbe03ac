"""docs/metrics.md names every metric that a rich scrape has, and nothing that there is not."""

from __future__ import annotations

import re
from pathlib import Path

from tests.monitor import test_prometheus
from tests.monitor.node import Running

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"

node = test_prometheus.node


def test_the_page_and_the_scrape_agree(node: Running) -> None:
    names = set(re.findall(r"^\| (`.+?) \|", PAGE.read_text(), re.MULTILINE))
    documented = {name for row in names for name in re.findall(r"`([A-Za-z_]+)`", row)}
    scrape = node.until(lambda found: "hami_cache_feedback_blocked" in found.families)
    exported = set(re.findall(r"^# TYPE (\w+) ", scrape.text, re.MULTILINE))
    on_request = {name for name in documented if name.startswith("hami_cache_host_gpu_")}
    assert exported - documented == set()
    assert documented - exported - on_request == set()
