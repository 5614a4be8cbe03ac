"""The monitor's command line: upstream's name, environment and switches, and what it refuses."""

from __future__ import annotations

import logging
import signal
from pathlib import Path

import pytest

from hami_cache.cli.main import main
from hami_cache.cli.monitor import resync_seconds
from hami_cache.cli.vgpumonitor import main as vgpumonitor
from hami_cache.cli.vgpumonitor import without_go_logger
from hami_cache.testing import CacheBuilder, container_tree
from hami_cache.testing.tree import ContainerTree
from tests.monitor.node import Scrape, monitor

USED = "hami_vgpu_memory_used_bytes"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ContainerTree:
    for name in ("HOOK_PATH", "NODE_NAME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    tree = container_tree(tmp_path)
    tree.add("pod", "main", CacheBuilder("v1.2").process(1, memory=[5]))
    return tree


def once(capsys: pytest.CaptureFixture[str], tree: ContainerTree, *arguments: str) -> Scrape:
    command = ["monitor", "--once", "--no-nvml", "--hook-path", str(tree.root), *arguments]
    assert main(command) == 0
    return Scrape(capsys.readouterr().out)


def test_pods_from_a_file(capsys: pytest.CaptureFixture[str], tree: ContainerTree) -> None:
    scrape = once(capsys, tree, "--pods", f"file:{tree.pods_json}")
    assert scrape.values(USED, pod="pod", namespace="default", container="main") == [5]
    assert not scrape.samples("vGPU_device_memory_usage_in_bytes")


def test_pods_from_the_kubelets_log_directories(
    capsys: pytest.CaptureFixture[str], tree: ContainerTree, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    (logs / f"team_trainer-0_{tree.pods['pod'].uid}" / "main").mkdir(parents=True)
    (logs / "not-a-pod").mkdir()
    scrape = once(capsys, tree, "--pods", f"podlogs:{logs}")
    assert scrape.values(USED, namespace="team", pod="trainer-0") == [5]


@pytest.mark.parametrize("spec", ["none", "auto"])
def test_without_pods_the_uid_is_the_name(
    capsys: pytest.CaptureFixture[str], tree: ContainerTree, spec: str
) -> None:
    scrape = once(capsys, tree, "--pods", spec)
    assert scrape.values(USED, pod=tree.pods["pod"].uid) == [5]


@pytest.mark.parametrize("switch", ["--legacy-metrics", "--legacy-metrics=true"])
def test_legacy_names_as_the_chart_asks_for_them(
    capsys: pytest.CaptureFixture[str], tree: ContainerTree, switch: str
) -> None:
    scrape = once(capsys, tree, switch, "--pods", f"file:{tree.pods_json}")
    assert scrape.values("vGPU_device_memory_usage_in_bytes") == [5]


def test_one_scrape_writes_nothing_and_removes_nothing(
    capsys: pytest.CaptureFixture[str], tree: ContainerTree
) -> None:
    path = next(tree.containers.glob("*/*.cache"))
    before = path.read_bytes()
    once(capsys, tree, "--pods", f"file:{tree.pods_json}")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["HOOK_PATH"]),
        (["--hook-path", "/x", "--pods", "file:/nowhere"], ["/nowhere", "No such file"]),
        (["--hook-path", "/x", "--pods", "what"], ["--pods", "what"]),
        (["--hook-path", "/x", "--pods", "api"], ["KUBECONFIG"]),
        (["--hook-path", "/x", "--metrics-bind-address", "nonsense"], ["nonsense"]),
        (["--hook-path", "/x", "--log-format", "xml"], ["xml"]),
        (["--hook-path", "/x", "--web-config", "/nowhere.yml"], ["/nowhere.yml"]),
        (["--hook-path", "/x", "--host-proc", "/nowhere"], ["/nowhere"]),
    ],
)
@pytest.mark.usefixtures("tree")
def test_a_bad_setting_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    assert main(["monitor", "--log-level", "error", "--no-nvml", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert all(word in line for word in words)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, 300), ("90s", 90), ("1h30m", 5400), ("", 300), ("soon", 300), ("-5m", 300)],
)
def test_the_resync_interval_is_a_go_duration_and_a_bad_one_is_the_default(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    value: str | None,
    seconds: float,
) -> None:
    if value is None:
        monkeypatch.delenv("HAMI_RESYNC_INTERVAL", raising=False)
    else:
        monkeypatch.setenv("HAMI_RESYNC_INTERVAL", value)
    with caplog.at_level(logging.WARNING):
        assert resync_seconds() == seconds
    assert bool(caplog.records) is (value in ("soon", "-5m"))


def test_upstreams_name_and_the_go_loggers_switches(
    capsys: pytest.CaptureFixture[str], tree: ContainerTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_PATH", str(tree.root))
    monkeypatch.setattr(
        "sys.argv",
        ["vGPUmonitor", "--legacy-metrics=true", "-v", "4", "--logtostderr=true", "--once",
         "--no-nvml", "--alsologtostderr"],
    )  # fmt: skip
    assert vgpumonitor() == 0
    assert Scrape(capsys.readouterr().out).values("vGPU_device_memory_usage_in_bytes") == [5]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["-v=4"], []),
        (["--v", "4", "--once"], ["--once"]),
        (["--vmodule=a=2", "--skip_headers"], []),
        (["-v", "--once"], ["--once"]),
        (["--pods", "none", "--stderrthreshold", "2"], ["--pods", "none"]),
    ],
)
def test_only_the_go_loggers_switches_are_passed_over(given: list[str], kept: list[str]) -> None:
    assert without_go_logger(given) == kept


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_a_clean_end(tree: ContainerTree, number: signal.Signals) -> None:
    pods = f"file:{tree.pods_json}"
    with monitor(tree.root, "--pods", pods, environment={"NODE_NAME": "node-a"}) as running:
        assert running.scrape().values(USED) == [5]
        running.process.send_signal(number)
        assert running.process.wait(2) == 0
        assert "Traceback" not in running.log.read_text()


def test_logs_can_be_had_as_json(tree: ContainerTree) -> None:
    pods = f"file:{tree.pods_json}"
    with monitor(tree.root, "--pods", pods, "--log-format", "json", "--no-nvml") as running:
        assert running.get("/healthz")[0] == 200
    lines = running.log.read_text().splitlines()
    assert lines
    assert all(line.startswith('{"time": ') for line in lines)
