"""``hami-cache feedback``: every container, the decision and its reason."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hami_cache.cli.main import main
from hami_cache.testing import CacheBuilder

CARD = "GPU-11111111-2222-4333-8444-555555555555"
Capture = pytest.CaptureFixture[str]


def lay_out(root: Path) -> None:
    for name, priority, recent in (("high", 0, 9), ("low", 1, 0)):
        builder = CacheBuilder(
            "v1.2", priority=priority, recent_kernel=recent, utilization_switch=0
        )
        builder.device(CARD).process(7).write(root / "containers" / f"u_{name}" / "x.cache")
    (root / "containers" / "u_\x1b[2J").mkdir()  # skipped: it cannot be printed
    (root / "containers" / "u_empty").mkdir()


@pytest.fixture
def root() -> Iterator[Path]:
    """A HOOK_PATH that anybody may enter."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    lay_out(folder)
    yield folder
    shutil.rmtree(folder)


def run(capsys: Capture, *arguments: str) -> list[dict[str, Any]]:
    """The decisions of each pass, by container."""
    assert main(["feedback", "--json", *arguments]) == 0
    passes = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [p["pass"] for p in passes] == list(range(1, len(passes) + 1))
    return [{d["container"]: d for d in p["decisions"]} for p in passes]


def test_json_says_what_was_decided_and_why(root: Path, capsys: Capture) -> None:
    first, second = run(capsys, str(root), "--passes", "2", "--interval", "1ms")
    assert first["high"]["recent_kernel"] == {"before": 9, "after": 8}
    assert second["high"]["recent_kernel"] == {"before": 8, "after": 7}
    assert first["low"] == {
        "pod_uid": "u",
        "container": "low",
        "cache": "x.cache",
        "priority": 1,
        "recent_kernel": {"before": 0, "after": -1},
        "utilization_switch": {"before": 0, "after": 1},
        "blocked": True,
        "reason": f"blocked: u_high of priority 0 runs on {CARD}",
        "written": True,
        "error": "",
    }
    assert second["low"]["blocked"] and not second["low"]["written"]
    assert first["empty"]["recent_kernel"] == {"before": None, "after": None}
    assert first["empty"]["reason"] == "takes no part: no cache file yet"
    assert set(first) == {"high", "low", "empty"}


def test_a_dry_run_writes_nothing(root: Path, capsys: Capture) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*.cache")}
    passes = run(capsys, str(root), "--dry-run", "--passes", "2", "--interval", "1ms")
    assert passes[0] == passes[1]
    assert passes[0]["low"]["recent_kernel"] == {"before": 0, "after": -1}
    assert before == {path: path.read_bytes() for path in root.rglob("*.cache")}


def test_people_see_a_table(root: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["feedback", str(root)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Pass 1" in lines[0]
    (low,) = (line.split() for line in lines if "u_low" in line)
    assert low[:10] == ["u_low", "x.cache", "1", "0", "->", "-1", "0", "->", "1", "yes"]
    assert any("takes no part: no cache file yet" in line for line in lines)


@pytest.mark.parametrize("place", ["", "containers", "vgpu", "vgpu/containers"])
def test_root_may_be_either_directory(place: str, root: Path, capsys: Capture) -> None:
    # C11
    if place.startswith("vgpu"):
        (root / "vgpu").mkdir()
        (root / "containers").rename(root / "vgpu" / "containers")
    assert set(run(capsys, str(root / place))[0]) == {"high", "low", "empty"}


def test_root_may_be_the_folder_we_are_in(
    root: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root / "containers")
    assert len(run(capsys, ".")[0]) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{root}/nowhere"], "nowhere: no container directories there; give HOOK_PATH"),
        (["{root}", "--interval", "soon"], "'soon' is not a duration"),
        (["{root}", "--interval", "0s"], "--interval: '0s' is no time to wait"),
        (["{root}", "--passes", "0"], "Invalid value for '--passes'"),
        (["{root}", "--layouts", "/nowhere"], "/nowhere: cannot list the folder of layouts"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str], message: str, root: Path, capsys: Capture
) -> None:
    given = [argument.format(root=root) for argument in arguments]
    assert main(["feedback", *given]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and len(captured.err.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes somebody else")
def test_a_cache_that_could_not_be_written_is_a_finding(root: Path, capsys: Capture) -> None:
    for path in root.rglob("*.cache"):
        path.chmod(0o444)
    os.seteuid(65534)
    try:
        assert main(["feedback", str(root)]) == 1
    finally:
        os.seteuid(0)
    assert "Permission denied" in capsys.readouterr().out.replace("\n", " ")


def test_a_signal_ends_it_between_passes(root: Path) -> None:
    program = "import sys; from hami_cache.cli.main import main; sys.exit(main())"
    options = ("--json", "--passes", "9", "--interval", "1h")
    command = [sys.executable, "-c", program, "feedback", str(root), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
