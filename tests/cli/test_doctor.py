"""``doctor`` from its options to its exit code, in a pipe and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hami_cache.cli.main import main
from hami_cache.model import ANOMALY_KINDS
from hami_cache.testing import CacheBuilder
from tests.goldens import golden

Output = pytest.CaptureFixture[str]


def healthy() -> CacheBuilder:
    builder = CacheBuilder("v1.2").device(sm_limit=50)
    return builder.process(7, 4711, memory=[1 << 30], sm_util=[5], monitorused=[1 << 30])


@pytest.fixture
def well(tmp_path: Path) -> str:
    return str(healthy().write(tmp_path / "well.cache"))


@pytest.fixture
def sick(tmp_path: Path) -> str:
    builder = healthy().set("procs[0].used[0].data", (1 << 64) - 5)
    return str(builder.process(8, status=0).write(tmp_path / "sick.cache"))


def lines(output: str) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


def test_nothing_found(well: str, capsys: Output) -> None:
    assert main(["doctor", well]) == 0
    shown = capsys.readouterr()
    assert f"{well}: v1.2, identified, nothing wrong\n" in shown.out
    assert "--host-proc" in shown.out
    assert shown.err == ""


def test_findings_say_what_where_and_what_to_do(sick: str, capsys: Output) -> None:
    assert main(["doctor", sick]) == 1
    shown = capsys.readouterr().out
    assert "1 error, 1 warning, 1 info" in shown
    assert "procs[0].used[0].data at 1880 (0x758): below zero: -5 as a signed number" in shown
    assert "-> Trust no sum with this slot" in shown
    assert shown.index("counter_underflow") < shown.index("sum_mismatch")
    assert shown.index("sum_mismatch") < shown.index("exited_slot")


def test_json_is_one_object_a_file_and_line(well: str, sick: str, capsys: Output) -> None:
    assert main(["doctor", "--json", well, sick]) == 1
    first, second = lines(capsys.readouterr().out)
    assert first == {
        "file": well,
        "layout": "v1.2",
        "verdict": "identified",
        "anomalies": [],
        "processes": [
            {
                "layout": "v1.2",
                "index": 0,
                "pid": 7,
                "hostpid": 4711,
                "liveness": "unknown",
                "detail": "no host /proc was given",
            }
        ],
    }
    assert second["file"] == sick
    underflow = second["anomalies"][0]
    assert {key: underflow[key] for key in ("kind", "severity", "where", "offset", "layout")} == {
        "kind": "counter_underflow",
        "severity": "error",
        "where": "procs[0].used[0].data",
        "offset": 1880,
        "layout": "v1.2",
    }
    assert underflow["advice"]
    assert {anomaly["kind"] for anomaly in second["anomalies"]} <= set(ANOMALY_KINDS)


def test_what_cannot_be_opened_does_not_stop_the_others(
    well: str, sick: str, tmp_path: Path, capsys: Output
) -> None:
    os.mkfifo(tmp_path / "fifo")
    paths = [str(tmp_path / "gone"), str(tmp_path / "fifo"), str(tmp_path), well, sick]
    assert main(["doctor", "--json", *paths]) == 2
    shown = capsys.readouterr()
    found = lines(shown.out)
    assert [one["file"] for one in found] == paths
    assert [bool(one.get("error")) for one in found] == [True, True, True, False, False]
    assert len(shown.err.splitlines()) == 3


def test_a_file_of_no_layout_cannot_be_read(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "x.cache"
    path.write_bytes(b"no cache at all, but long enough")
    assert main(["doctor", "--json", str(path)]) == 2
    shown = capsys.readouterr()
    (found,) = lines(shown.out)
    assert (found["layout"], found["verdict"]) == (None, "unknown")
    assert [anomaly["severity"] for anomaly in found["anomalies"]] == ["error"]
    assert len(shown.err.splitlines()) == 1


def test_a_file_that_is_not_initialised_is_a_finding(tmp_path: Path, capsys: Output) -> None:
    path = healthy().not_initialised().write(tmp_path / "x.cache")
    assert main(["doctor", "--json", str(path)]) == 1
    (found,) = lines(capsys.readouterr().out)
    assert (found["verdict"], found["anomalies"][0]["kind"]) == ("not_initialised",) * 2


@pytest.mark.parametrize(("severity", "count", "code"), [("info", 3, 1), ("warning", 2, 1)])
def test_less_severe_findings_can_be_left_out(
    severity: str, count: int, code: int, sick: str, capsys: Output
) -> None:
    assert main(["doctor", "--json", "--severity", severity, sick]) == code
    (found,) = lines(capsys.readouterr().out)
    assert len(found["anomalies"]) == count


def test_what_is_left_out_does_not_count(tmp_path: Path, capsys: Output) -> None:
    path = str(healthy().process(8, status=0).write(tmp_path / "x.cache"))
    assert main(["doctor", path]) == 1
    assert main(["doctor", "--severity", "warning", path]) == 0


@pytest.mark.parametrize(
    ("now", "kinds"),
    [
        ("1700000000", []),
        ("2023-11-14T22:13:20Z", []),
        ("2023-11-14T22:00:00", ["last_kernel_in_future"]),
        ("2023-11-15T00:13:20+02:00", []),
    ],
)
def test_the_time_of_the_copy(now: str, kinds: list[str], well: str, capsys: Output) -> None:
    main(["doctor", "--json", "--now", now, well])
    (found,) = lines(capsys.readouterr().out)
    assert [anomaly["kind"] for anomaly in found["anomalies"]] == kinds


@pytest.mark.parametrize(
    "arguments",
    [["--now", "yesterday"], ["--now", "inf"], ["--json", "--sarif"], ["--host-proc", "/nowhere"],
     ["--layout", "v9"]],
)  # fmt: skip
def test_what_makes_no_sense_is_told_in_one_line(
    arguments: list[str], well: str, capsys: Output
) -> None:
    assert main(["doctor", *arguments, well]) == 2
    shown = capsys.readouterr()
    assert (shown.out, len(shown.err.splitlines())) == ("", 1)


def test_a_hosts_processes(well: str, tmp_path: Path, capsys: Output) -> None:
    status = tmp_path / "proc" / "4711" / "status"
    status.parent.mkdir(parents=True)
    status.write_text("State:\tS (sleeping)\nNSpid:\t4711\t7\n")
    assert main(["doctor", "--host-proc", str(tmp_path / "proc"), well]) == 0
    assert "1 counted process: 1 alive" in capsys.readouterr().out
    status.unlink()
    status.parent.rmdir()
    assert main(["doctor", "--host-proc", str(tmp_path / "proc"), well]) == 1
    assert "dead_process" in capsys.readouterr().out


def test_a_mixed_file_shows_what_was_recovered(tmp_path: Path, capsys: Output) -> None:
    one = golden("v1.2--mixed-v1-sem-then-v1.2-dead")
    path = str(one.write(tmp_path))
    assert main(["doctor", path]) == 1
    shown = capsys.readouterr().out
    assert "Recovered slot by slot" in shown
    assert "written over" in shown
    assert main(["doctor", "--json", path]) == 1
    (found,) = lines(capsys.readouterr().out)
    slots = found["recovered"]["slots"]
    assert [(slot["layout"], slot["where"]) for slot in slots] == [
        ("v1.2", "procs[0]"),
        ("v1-sem", "procs[1]"),
    ]
    assert slots[0]["used"][0]["total"] == one.want["slots"][0]["used"][0]["total"]
    assert found["recovered"]["lost"] == [{"layout": "v1-sem", "where": "procs[0]", "offset": 1888}]
    assert found["recovered"]["devices"][0]["used"] == {"total": {"absent": "layout_mixed"}}


def test_many_findings_of_a_kind_are_counted(tmp_path: Path, capsys: Output) -> None:
    builder = healthy()
    for index in range(1, 31):
        builder.process(0, status=0, index=index)
    main(["doctor", str(builder.write(tmp_path / "x.cache"))])
    assert "and 20 more (--json lists them all)" in capsys.readouterr().out


def test_sarif_is_one_document(well: str, sick: str, tmp_path: Path, capsys: Output) -> None:
    assert main(["doctor", "--sarif", well, sick, str(tmp_path / "gone")]) == 2
    log = json.loads(capsys.readouterr().out)
    (run,) = log["runs"]
    assert [result["ruleId"] for result in run["results"]] == [
        "counter_underflow", "sum_mismatch", "exited_slot",
    ]  # fmt: skip
    assert run["invocations"][0]["executionSuccessful"] is False


def test_a_file_name_cannot_write_to_the_terminal(tmp_path: Path, capsys: Output) -> None:
    path = healthy().write(tmp_path / "[red]\x1b[31m.cache")
    assert main(["doctor", str(path)]) == 0
    assert "[red]\\x1b[31m.cache" in capsys.readouterr().out


def on_a_terminal(arguments: list[str]) -> str:
    """What a command writes to a real terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    command = [sys.executable, "-c", RUN, *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        chunks = []
        with suppress(OSError):  # Linux says EIO when the other side has closed
            while chunk := os.read(ours, 65536):
                chunks.append(chunk)
    os.close(ours)
    return b"".join(chunks).decode()


RUN = "import sys; from hami_cache.cli.main import main; sys.exit(main())"


def test_colours_on_a_terminal_and_nowhere_else(sick: str, capsys: Output) -> None:
    shown = on_a_terminal(["doctor", sick])
    assert "\x1b[1;31merror" in shown
    main(["doctor", sick])
    assert "\x1b" not in capsys.readouterr().out
