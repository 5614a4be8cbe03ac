"""The monitor on a root file system that nobody can write to, caches included (C12)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hami_cache.testing import CacheBuilder, container_tree
from tests.monitor.node import Scrape

READ_ONLY = ["unshare", "--mount", "sh", "-c", 'mount -o remount,ro,bind / && exec "$@"', "sh"]


def may_remount() -> bool:
    try:
        probe = subprocess.run([*READ_ONLY, "true"], capture_output=True, check=False)
    except OSError:
        return False
    return probe.returncode == 0


@pytest.mark.skipif(not may_remount(), reason="needs root and a mount namespace")
def test_everything_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    tree = container_tree(tmp_path)
    path = tree.add("pod", "main", CacheBuilder("v1.2").process(1, memory=[5]))
    before = path.read_bytes()
    program = "import sys; from hami_cache.cli.main import main; sys.exit(main())"
    command = [
        *READ_ONLY, sys.executable, "-c", program, "monitor", "--once", "--read-only",
        "--hook-path", str(tmp_path), "--pods", f"file:{tree.pods_json}",
    ]  # fmt: skip
    environment = {**os.environ, "NODE_NAME": "node-a"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    scrape = Scrape(run.stdout)
    assert scrape.values("hami_vgpu_memory_used_bytes") == [5]
    assert scrape.value("hami_cache_collect_errors") == 0
    assert "Traceback" not in run.stderr
    assert path.read_bytes() == before
