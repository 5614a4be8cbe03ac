"""``hami-cache top --once``: what the lines say, in which order, and which are shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from hami_cache.absent import Absent
from hami_cache.cli import top_cells
from hami_cache.cli.main import main
from hami_cache.cli.top_cells import COLUMNS
from hami_cache.cli.top_order import ORDERS, select, sort
from hami_cache.cli.top_reading import Line, NodeWatch
from hami_cache.monitor.labels import Named
from hami_cache.node.containers import ContainerKey
from hami_cache.node.devicefigures import DeviceUsage
from hami_cache.node.pods import FilePods, NoPods, PodLogPods
from hami_cache.node.usage import ContainerUsage
from hami_cache.testing import ContainerTree
from tests.cli.top_node import GIB, MARKUP, node

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOOK_PATH", "NODE_NAME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tree(tmp_path: Path) -> ContainerTree:
    return node(tmp_path / "hook")


def once(tree: ContainerTree, *more: str) -> int:
    pods = f"file:{tree.pods_json}"
    return main(["top", "--once", "--hook-path", str(tree.root), "--pods", pods, *more])


def document(tree: ContainerTree, capsys: Capture, *more: str) -> dict[str, Any]:
    assert once(tree, "--json", *more) == 0
    made = json.loads(capsys.readouterr().out)
    assert isinstance(made, dict)
    return made


def test_a_table_has_a_line_for_each_card(tree: ContainerTree, capsys: Capture) -> None:
    assert once(tree) == 0
    out, err = capsys.readouterr()
    assert err == ""
    title, *lines = [line for line in out.splitlines() if set(line.strip()) - {"─"}]
    assert all(column in title for column in COLUMNS.values())
    busy = [line.split() for line in lines if "team-a/busy" in line]
    assert [words[4:6] for words in busy] == [["0", "GPU-aaaa"], ["1", "GPU-bbbb"]]
    assert "━━━━━━━━╸─  14.00 GiB of 16.00 GiB" in out and "35 % of 50" in out
    assert "1h 1m" in out
    [over] = [line for line in lines if "default/over" in line]
    assert "ready !" in over and "150 %" in over and over.rstrip().endswith("over_limit")
    [below] = [line for line in lines if "default/below" in line]
    assert "absent: counter_underflow" in below and "[red]x" in below
    [cut] = [line for line in lines if "default/cut" in line]
    assert cut.split() == ["default/cut", "main", "unknown_layout", "truncated"]
    assert "ended" not in out.replace("pod_ended", "")
    assert lines[-1] == "1 not shown: pod_ended"


def test_json_has_every_container_with_raw_figures(tree: ContainerTree, capsys: Capture) -> None:
    made = document(tree, capsys)
    assert made["root"] == str(tree.containers)
    assert abs(made["taken"] - time.time()) < 3600
    assert made["hidden"] == {"pod_ended": 1}
    by_pod = {one["pod"]: one for one in made["containers"]}
    assert set(by_pod) == {"busy", "over", "below", "cut", "starting"}
    busy = by_pod["busy"]
    assert (busy["namespace"], busy["pod_uid"], busy["layout"], busy["confidence"]) == (
        "team-a", tree.pods["busy"].uid, "v1.2", pytest.approx(1, abs=0.01),
    )  # fmt: skip
    assert busy["processes"]["running"] == 2
    first, second = busy["devices"]
    assert first == {
        "index": 0,
        "uuid": "GPU-aaaa",
        "limit": 16 * GIB,
        "sm_limit": 50,
        "used": {"context": 0, "module": 0, "data": 14 * GIB, "total": 14 * GIB},
        "sm_util": 35,
    }
    assert second["used"]["total"] == GIB
    below = by_pod["below"]
    assert below["container"] == MARKUP
    assert below["devices"][0]["used"]["total"] == {"absent": "counter_underflow"}
    assert "counter_underflow" in [anomaly["kind"] for anomaly in below["anomalies"]]
    cut, starting = by_pod["cut"], by_pod["starting"]
    assert (cut["state"], cut["layout"], cut["confidence"]) == ("unknown_layout", None, None)
    assert (starting["state"], starting["devices"]) == ("empty", [])


def test_lines_are_filtered_by_all_words_wherever_they_stand(
    tree: ContainerTree, capsys: Capture
) -> None:
    def found(words: str) -> list[tuple[str, int]]:
        made = document(tree, capsys, "--filter", words)
        return [(one["pod"], len(one["devices"])) for one in made["containers"]]

    assert found("gpu-AAAA") == [("over", 1), ("busy", 1)]
    assert found("team-a/ main") == [("busy", 2)]
    assert found("over_limit") == [("over", 1)]
    assert found("unknown_layout") == [("cut", 0)]
    assert found("v1-sem") == [("over", 1)]
    assert found("busy over") == []


def test_sorting_puts_what_has_no_value_last_whichever_way_round(tree: ContainerTree) -> None:
    pods = FilePods(tree.pods_json)
    watch = NodeWatch(tree.root, pods)
    lines = watch.take(complete=True).lines
    watch.close()

    def order(key: str, turned: bool = False) -> list[tuple[str, int]]:
        found = sort(lines, key, turned=turned)
        return [(line.named.pod, line.device.index if line.device else -1) for line in found]

    names = [("below", 0), ("cut", -1), ("over", 0), ("starting", -1), ("busy", 0), ("busy", 1)]
    rest = [("below", 0), ("cut", -1), ("starting", -1)]
    assert order("pod") == names
    assert order("memory") == [("busy", 0), ("over", 0), ("busy", 1), *rest]
    assert order("memory", turned=True) == [("busy", 1), ("over", 0), ("busy", 0), *rest]
    assert order("share") == [("over", 0), ("busy", 0), ("busy", 1), *rest]
    assert order("sm")[:3] == [("over", 0), ("busy", 0), ("busy", 1)]
    assert order("kernel")[:2] == [("busy", 0), ("busy", 1)]
    assert order("kernel")[-2:] == [("cut", -1), ("starting", -1)]
    assert order("state")[:1] == [("starting", -1)] and order("state")[-1:] == [("cut", -1)]
    assert order("layout")[0] == ("over", 0)
    assert order("card")[:3] == [("over", 0), ("busy", 0), ("busy", 1)]
    assert order("anomalies")[-1][0] == "busy"
    assert set(ORDERS) == set(COLUMNS)
    assert order("container")[-1] == ("busy", 1) or order("container")[0] == ("below", 0)


def test_the_order_is_an_option(tree: ContainerTree, capsys: Capture) -> None:
    made = document(tree, capsys, "--sort", "share")
    assert [one["pod"] for one in made["containers"]][:2] == ["over", "busy"]


def test_it_names_what_it_can_and_waits_for_nobody(tree: ContainerTree, tmp_path: Path) -> None:
    watch = NodeWatch(tree.root, NoPods())
    assert {line.named.pod for line in watch.take().lines} == {
        pod.uid for pod in tree.pods.values()
    }
    watch.close()
    watch = NodeWatch(tree.root, PodLogPods(tmp_path / "nowhere"))
    reading = watch.take()
    assert (reading.lines, reading.hidden) == ((), {"pods_not_synced": 6})
    watch.close()


def test_dead_processes_do_not_count_where_the_hosts_proc_is_known(
    tree: ContainerTree, tmp_path: Path, capsys: Capture
) -> None:
    proc = tmp_path / "proc"
    (proc / "1").mkdir(parents=True)
    made = document(tree, capsys, "--host-proc", str(proc), "--filter", "busy")
    [busy] = made["containers"]
    assert busy["processes"]["dead"] == 2
    assert [device["used"]["total"] for device in busy["devices"]] == [0, 0]


def line(device: DeviceUsage | None = None, kernel: int | None = None, **more: Any) -> Line:
    usage = ContainerUsage(ContainerKey("uid", "main"), "ready", **more)
    return Line(Named(usage, "n", "p", "main", None), device, kernel)


def card(total: Any, limit: int, sm: Any = 0, sm_limit: int = 0) -> DeviceUsage:
    return DeviceUsage(0, "GPU-x", limit, sm_limit, total, 0, 0, 0, sm)


def said(one: Line) -> dict[str, str]:
    return dict(zip(COLUMNS, (text.plain for text in top_cells.cells(one)), strict=True))


def test_cells_say_what_is_absent_and_never_zero_for_it() -> None:
    cells = said(line(card(Absent("layout_mixed"), GIB, Absent("not_in_layout"))))
    assert (cells["memory"], cells["share"], cells["sm"]) == (
        "absent: layout_mixed", "", "not in layout"
    )  # fmt: skip
    why = {"utilization_not_measured": "no watcher"}
    cells = said(line(card(0, 0, Absent("utilization_not_measured")), anomalies=why))
    assert (cells["memory"], cells["share"], cells["sm"]) == ("0 B of no limit", "", "absent")
    cells = said(line())
    assert (cells["card"], cells["memory"], cells["sm"], cells["kernel"]) == ("", "", "", "")


def test_bars_and_shares_of_extreme_figures() -> None:
    assert top_cells.bar(0, GIB).plain == "─" * 10
    assert top_cells.bar(1, GIB).plain == "╸" + "─" * 9
    assert top_cells.bar(GIB // 2, GIB).plain == "━" * 5 + "─" * 5
    assert top_cells.bar(2**63 - 1, 1).plain == "━" * 10
    assert said(line(card(2**63 - 1, 1)))["share"] == ">999 %"
    assert said(line(card(GIB, 2 * GIB)))["share"] == " 50 %"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""), (0, "0s"), (59, "59s"), (61, "1m 1s"), (7200, "2h 0m"), (90000, "1d 1h"),
        (-5, "0s"), (-(2**63), "in the future"),
    ],
)  # fmt: skip
def test_the_last_kernels_age(seconds: int | None, text: str) -> None:
    assert said(line(kernel=seconds))["kernel"] == text


def test_names_are_text_that_cannot_do_anything() -> None:
    evil = "[bold]\x1b[2J\u202etxt\n" + "x" * 400
    named = Named(line().named.usage, evil, evil, evil, None)
    for cell in top_cells.cells(Line(named, None, None))[:2]:
        assert isinstance(cell, Text) and cell.plain.isprintable() and len(cell.plain) <= 32
        assert cell.plain.startswith("[bold]\\x1b") and not cell.spans


def test_a_doubtful_layout_says_how_sure_it_is() -> None:
    assert said(line(layout="v1.2", confidence=0.71))["layout"] == "v1.2 71% sure"
    assert said(line(layout="v1.2", confidence=1))["layout"] == "v1.2"


def test_a_filter_of_nothing_selects_everything() -> None:
    lines = [line(card(1, 1))]
    assert select(lines, "  ") == lines


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--once", "--interval", "0s"], "--interval: '0s' is no time to wait"),
        (["--json"], "--json goes with --once"),
        (["--once", "--hook-path", "/nowhere"], "/nowhere: no container directories there"),
        (["--once", "--pods", "file:/nowhere"], "/nowhere: cannot read the pod list"),
        (["--once", "--layouts", "/nowhere"], "/nowhere: cannot list the folder of layouts"),
        (["--once", "--sort", "size"], "'size' is not one of 'pod'"),
        ([], "this is no terminal; say --once for a table"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tree: ContainerTree, capsys: Capture, more: list[str], says: str
) -> None:
    assert main(["top", "--hook-path", str(tree.root), *more]) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err and err.count("\n") == 1


def test_a_terminal_without_a_code_for_a_letter_gets_an_escape(tree: ContainerTree) -> None:
    tree.add("日本", "main")
    program = "import sys; from hami_cache.cli.main import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["top", "--once", "--hook-path", tree.root, "--pods", f"file:{tree.pods_json}"]
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True, env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"default/\u65e5\u672c" in done.stdout


def test_nobody_said_where(capsys: Capture) -> None:
    assert main(["top", "--once"]) == 2
    assert "set HOOK_PATH or give --hook-path" in capsys.readouterr().err


def test_without_textual_the_table_is_still_there(
    tree: ContainerTree, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)  # what an import finds when there is none
    assert once(tree) == 0
    assert "team-a/busy" in capsys.readouterr().out
    assert main(["top", "--hook-path", str(tree.root)]) == 2
    assert capsys.readouterr().err == (
        "hami-cache: this needs textual; pip install 'hami-cache[tui]'\n"
    )
