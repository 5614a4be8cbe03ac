"""The first thing that a newcomer runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from hami_cache import layouts
from hami_cache.cli.main import main


def test_the_demo_shows_every_layout_the_loop_the_metrics_and_a_cache(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--directory", str(tmp_path)]) == 0
    shown = capfd.readouterr().out
    for name in layouts():
        assert f'layout="{name}"' in shown
    assert "blocked" in shown
    assert "hami_vgpu_memory_used_bytes{" in shown
    assert 'hami_cache_state{namespace="team-b",pod="cut",container="main"' in shown
    assert "Process slots" in shown
    for name, layout in layouts().items():
        used = [line for line in shown.splitlines() if f'container="{name}"' in line]
        assert used, layout.name
    # Live processes wrote these: memory is there, and it is their sum.
    lines = [line for line in shown.splitlines() if line.startswith("hami_vgpu_memory_used_bytes{")]
    assert sum(int(line.rpartition(" ")[2]) > 0 for line in lines) == 2 * len(layouts())
