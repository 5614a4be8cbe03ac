"""``record``, ``replay`` and ``plot``: a node over time, also after a recorder that was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hami_cache.cli.main import main
from hami_cache.cli.sparkline import sparkline
from hami_cache.forensics.history import Recording, Sample, replay
from hami_cache.forensics.history_file import HistoryError
from hami_cache.testing import CacheBuilder, ContainerTree, Memory, container_tree

Output = pytest.CaptureFixture[str]
PROGRAM = "import sys; from hami_cache.cli.main import main; sys.exit(main())"


@pytest.fixture
def node(tmp_path: Path) -> ContainerTree:
    tree = container_tree(tmp_path / "hook")
    tree.add("trainer", "main", CacheBuilder("v1.2").process(7, memory=[3 << 30], sm_util=[40]))
    tree.add("idle", "main", CacheBuilder("v0").not_initialised())
    return tree


@pytest.fixture
def recording(node: ContainerTree, tmp_path: Path) -> Path:
    out = tmp_path / "x.history"
    argv = ["record", str(node.root), "--out", str(out), "--interval", "1ms", "--samples", "3"]
    assert main(argv) == 0
    return out


def documents(path: Path) -> list[dict[str, Any]]:
    """The caches of every sample, without their names."""
    return [{str(its["state"]): its for its in sample.caches.values()} for sample in replay(path)]


def test_a_sample_has_every_cache_in_its_state(recording: Path) -> None:
    for sample in documents(recording):
        assert sample["ready"]["devices"][0]["used"]["total"] == 3 << 30
        assert sample["ready"]["devices"][0]["sm_util"] == 40
        assert "magic" in sample["not_initialised"]["detail"]
    assert len(documents(recording)) == 3
    times = [sample.time for sample in replay(recording)]
    assert times == sorted(times)


def test_what_record_says_at_the_end(node: ContainerTree, tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / "x"
    assert main(["record", str(node.root / "containers"), "--out", str(out), "--samples", "1"]) == 0
    assert capsys.readouterr().err == f"{out}: 1 samples, {out.stat().st_size} bytes\n"


def test_a_recorder_that_is_killed_leaves_whole_samples_and_is_gone_on_with(
    node: ContainerTree, tmp_path: Path
) -> None:
    out = tmp_path / "x.history"
    argv = [sys.executable, "-c", PROGRAM, "record", str(node.root), "--out", str(out)]
    with subprocess.Popen([*argv, "--interval", "1ms"]) as process:
        while read_so_far(out) < 20:  # it can be read while it is written
            assert process.poll() is None
        process.kill()
    before = read_so_far(out)
    with subprocess.Popen([*argv, "--interval", "1ms"], stderr=subprocess.PIPE) as process:
        while read_so_far(out) < before + 5:
            assert process.poll() is None
        os.kill(process.pid, signal.SIGTERM)
        assert process.stderr is not None and b"samples" in process.stderr.read()
    assert process.returncode == 0
    found = documents(out)
    assert len(found) >= before + 5
    assert all(sample["ready"] == found[0]["ready"] for sample in found)


def read_so_far(path: Path) -> int:
    if not path.exists():
        return 0
    try:
        return sum(1 for _ in replay(path))
    except HistoryError:  # not even the header yet
        return 0


def test_replay_for_people(recording: Path, capsys: Output) -> None:
    capsys.readouterr()
    assert main(["replay", str(recording)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert sum("device 0  3.00 GiB of 16.00 GiB  SM 40 %" in line for line in lines) == 3
    assert sum("not_initialised: not initialised yet" in line for line in lines) == 3


def test_replay_of_a_part_for_machines(recording: Path, capsys: Output) -> None:
    first, second, third = replay(recording)
    capsys.readouterr()
    argv = ["replay", "--json", str(recording), "--cache", "_main/"]
    assert main([*argv, "--since", str(second.time)]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["time"] for one in found] == [second.time, third.time]
    assert found[0]["caches"] == second.caches
    assert main([*argv, "--until", str(second.time), "--last"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["time"] == second.time
    assert main(["replay", "--json", str(recording), "--cache", "nothing", "--last"]) == 0
    assert json.loads(capsys.readouterr().out) == {"time": third.time, "caches": {}}
    assert first.time < second.time < third.time


def test_plot_in_the_terminal(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "x"
    with Recording(path) as out:
        for second in range(16):
            device = {"used": {"total": second << 30}, "limit": 15 << 30, "sm_util": 100 - second}
            devices = [device] if second != 8 else []
            caches = {"uid_main/a\x1b[2J.cache": {"devices": devices}}
            out.add(Sample(1_700_000_000 + second, caches))
    assert main(["plot", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "16 samples from 2023-11-14T22:13:20.000+00:00 to 2023-11-14T22:13:35" in shown
    assert "▁▁▂▂▃▃▄▄ ▅▆▆▇▇██" in shown and "15.00 GiB   15.00 GiB" in shown
    assert "████████ ████▇▇▇" in shown
    assert "\x1b" not in shown


def test_plot_into_files(recording: Path, tmp_path: Path) -> None:
    for ending in ("png", "svg"):
        assert main(["plot", str(recording), "--out", str(tmp_path / f"x.{ending}")]) == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (tmp_path / "x.svg").read_text()


def test_an_empty_part_is_plotted_as_nothing(recording: Path, capsys: Output) -> None:
    assert main(["plot", str(recording), "--cache", "nothing"]) == 0
    assert main(["plot", str(recording), "--since", "2100-01-01"]) == 0


def test_sparklines() -> None:
    nan = float("nan")
    assert sparkline([], 1) == ""
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7, 8], 8) == "▁▂▃▄▅▆▇██"
    assert sparkline([nan, 8, nan], 8) == " █ "
    assert sparkline([0, 0], 0) == "▁▁"
    assert sparkline([1, 8, 1, 1], 8, width=2) == "█▂"
    assert len(sparkline([1.0] * 1000, 1)) == 28


def test_absent_figures_say_why(tmp_path: Path, capsys: Output) -> None:
    builder = CacheBuilder("v1.2").process(7, memory=[Memory(total=(1 << 64) - 9)])
    tree = container_tree(tmp_path / "hook")
    tree.add("pod", "main", builder)
    out = tmp_path / "x"
    assert main(["record", str(tree.root), "--out", str(out), "--samples", "1"]) == 0
    assert main(["replay", str(out)]) == 0
    assert "absent (counter_underflow) of 16.00 GiB" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["replay"], ["replay", "--json"], ["plot"]])
def test_forged_recordings_are_printed_or_refused(
    tmp_path: Path, capsys: Output, argv: list[str]
) -> None:
    caches: dict[str, Any] = {
        "a": {"devices": [{"used": 5, "limit": {"absent": "x\ny"}}, 7, None]},
        "b": {"devices": "none", "state": "x\x1b[2J"},
        "c": {},
    }
    with Recording(tmp_path / "x") as out:
        out.add(Sample(1, caches))
    assert main([*argv, str(tmp_path / "x")]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["record", ".", "--out", "x"], "no container directories"),
        (["record", "hook", "--out", "no/x"], "cannot write"),
        (["record", "hook", "--out", "x", "--interval", "0s"], "no time to wait"),
        (["record", "hook", "--out", "text"], "is no recording"),
        (["replay", "nothing"], "cannot open"),
        (["replay", "text"], "is no recording"),
        (["plot", "text"], "is no recording"),
        (["replay", "text", "--since", "?"], "neither seconds"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch, argv: list[str], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("some text, long enough")
    (tmp_path / "hook" / "containers").mkdir(parents=True)
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1 and reason in err
