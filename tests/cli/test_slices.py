"""``hami-cache slices``, from its options to what it prints."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hami_cache.cli.main import main
from hami_cache.slices.section import Device, Section, Usage
from hami_cache.slices.sectionjson import to_json
from hami_cache.testing.nvml import FakeNvml, Gpu
from tests.slices.simulated import GIB, SimulatedNode, cache

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOOK_PATH", "NODE_NAME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def node(tmp_path: Path) -> SimulatedNode:
    """`trainer` has a process on GPU-0, which the host's own process on GPU-1 poisons there."""
    node = SimulatedNode(tmp_path)
    used = cache("GPU-0", "GPU-1").process(5, 500, memory=[2 * GIB, 3 * GIB], sm_util=[10, 30])
    node.pod("trainer", "GPU-0", "GPU-1", cache=used)
    node.process(1)
    node.process(500, "trainer", inner=5)
    return node


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[FakeNvml]:
    with FakeNvml.loaded(tmp_path) as fake:
        fake.write(
            Gpu("GPU-0", processes=[(500, GIB)], samples=[(500, 1, 10)]),
            Gpu("GPU-1", processes=[(500, GIB), (1, 1)]),
        )
        yield fake


def places(node: SimulatedNode) -> list[str]:
    return ["--hook-path", str(node.hook_path), "--pods", f"file:{node.tree.pods_json}"]


def options(node: SimulatedNode, *more: str) -> list[str]:
    return ["slices", *places(node), "--host-proc", str(node.proc), *more]


def usage(node: SimulatedNode, card: str, memory: int, cores: int) -> Usage:
    return Usage("nvidia", node.uid("trainer"), "main", card, memory, cores)


def measured(card: str, rows: int = 1) -> Device:
    return Device("nvidia", card, rows_returned=rows, rows_attributed=rows)


POISONED = Device("nvidia", "GPU-1", "no_pod_component", "no_pod_component", 2, 1, 0, 0, 1)


def test_both_sources_are_one_section(
    node: SimulatedNode, driver: FakeNvml, capsys: Captured
) -> None:
    assert main(options(node)) == 0
    out, err = capsys.readouterr()
    assert out.encode() == (
        to_json(
            Section(
                (usage(node, "GPU-0", 1024, 10), usage(node, "GPU-1", 3072, 30)),
                (measured("GPU-0"), POISONED),
            )
        )
        + b"\n"
    )
    assert err == (
        "source_disagreement: pod default/trainer container main device GPU-0 memory: "
        "driver 1024 MiB, cache 2048 MiB\n"
    )


def test_the_driver_alone(node: SimulatedNode, driver: FakeNvml, capsys: Captured) -> None:
    assert main(options(node, "--source", "nvml", "--json")) == 0
    section = Section((usage(node, "GPU-0", 1024, 10),), (measured("GPU-0"), POISONED))
    assert capsys.readouterr() == (to_json(section).decode() + "\n", "")


def test_the_caches_alone_need_no_driver(node: SimulatedNode, capsys: Captured) -> None:
    assert main(options(node, "--source", "cache")) == 0
    unread = [Device("nvidia", card, "not_measured", "not_measured") for card in ("GPU-0", "GPU-1")]
    shares = (usage(node, "GPU-0", 2048, 10), usage(node, "GPU-1", 3072, 30))
    assert capsys.readouterr() == (to_json(Section(shares, tuple(unread))).decode() + "\n", "")


def test_the_caches_go_on_without_a_driver(
    node: SimulatedNode, driver: FakeNvml, capsys: Captured
) -> None:
    driver.remove()
    assert main(options(node)) == 0
    out, err = capsys.readouterr()
    assert [share["memoryUsedMiB"] for share in json.loads(out)["usages"]] == [2048, 3072]
    assert err.count("\n") == 1
    assert "nvmlInit" in err


def test_a_pass_that_could_not_measure_is_null_and_says_why(
    node: SimulatedNode, driver: FakeNvml, capsys: Captured
) -> None:
    driver.remove()
    assert main(options(node, "--source", "nvml")) == 2
    out, err = capsys.readouterr()
    assert out == "null\n"
    assert "nvmlInit" in err


def test_a_node_with_nothing_to_measure_is_null_and_fine(tmp_path: Path, capsys: Captured) -> None:
    assert main(options(SimulatedNode(tmp_path), "--source", "cache")) == 0
    assert capsys.readouterr() == ("null\n", "")


def test_what_is_missing_is_explained(
    node: SimulatedNode, driver: FakeNvml, capsys: Captured
) -> None:
    node.pod("new", "GPU-1", cache=cache("GPU-1").not_initialised())
    assert main(options(node, "--explain")) == 0
    lines = capsys.readouterr().err.splitlines()
    [memory, cores] = [line for line in lines if line.startswith("not_measured: ")]
    assert memory.startswith(
        "not_measured: pod default/new container main device GPU-1 memory: "
        "driver no_pod_component, cache not_initialised (x.cache: "
    )
    assert " cores: driver no_pod_component, cache not_initialised (" in cores


def test_without_the_hosts_proc_nobody_is_taken_for_dead(tmp_path: Path, capsys: Captured) -> None:
    """Our own /proc may be another than the one that the cache's host pids are of."""
    node = SimulatedNode(tmp_path)
    nowhere = 2**31 - 1
    node.pod("far", "GPU-0", cache=cache("GPU-0").process(nowhere - 1, nowhere, memory=[GIB]))
    assert main(["slices", *places(node), "--source", "cache"]) == 0
    [share] = json.loads(capsys.readouterr().out)["usages"]
    assert share["memoryUsedMiB"] == 1024
    assert main(options(node, "--source", "cache")) == 2
    out, err = capsys.readouterr()
    assert out == "null\n"
    assert "cache stale_process (every process in the cache is gone from the host)" in err


def test_an_annotation_cannot_forge_a_line(tmp_path: Path, capsys: Captured) -> None:
    node = SimulatedNode(tmp_path)
    node.pod("evil", "GPU-0\nforged", cache=cache("GPU-0").not_initialised())
    assert main(options(node, "--source", "cache")) == 2
    memory, cores = capsys.readouterr().err.splitlines()
    assert "pod default/evil container main device GPU-0\\nforged memory:" in memory
    assert "device GPU-0\\nforged cores:" in cores


def ask(node: SimulatedNode, capsys: Captured, *key: str) -> tuple[int, Any]:
    code = main(options(node, "--figures", *key))
    return code, json.loads(capsys.readouterr().out)


def test_figures_of_one_container_with_what_either_source_says(
    node: SimulatedNode, driver: FakeNvml, capsys: Captured
) -> None:
    reason = {"absent": "no_pod_component"}
    uid = node.uid("trainer")
    expected = {
        "manufacturer": "nvidia",
        "podUID": uid,
        "container": "main",
        "deviceID": "GPU-1",
        "id": "",
        "memoryTotalMiB": {"absent": "not_measured"},
        "memoryUsedMiB": 3072,
        "coresUtilizationPercent": 30,
        "sources": {
            "driver": {"memoryUsedMiB": reason, "coresUtilizationPercent": reason},
            "cache": {"memoryUsedMiB": 3072, "coresUtilizationPercent": 30},
        },
    }
    assert ask(node, capsys, uid, "main", "GPU-1") == (0, expected)
    assert ask(node, capsys, "default/trainer", "main", "GPU-1") == (0, expected)


def test_figures_of_a_container_that_is_idle_or_not_on_the_card(
    node: SimulatedNode, driver: FakeNvml, capsys: Captured
) -> None:
    code, idle = ask(node, capsys, node.uid("trainer"), "sidecar", "GPU-0")
    assert (code, idle["memoryUsedMiB"], idle["coresUtilizationPercent"]) == (0, 0, 0)
    assert idle["sources"]["cache"]["memoryUsedMiB"] == {"absent": "no_cache"}
    code, unknown = ask(node, capsys, node.uid("trainer"), "main", "GPU-9")
    assert (code, unknown["memoryUsedMiB"]) == (1, {"absent": "device_not_listed"})


def test_a_partitions_figures(node: SimulatedNode, driver: FakeNvml, capsys: Captured) -> None:
    uid = node.pod("sliced", "GPU-2")
    node.partition("sliced", "GPU-2", "MIG-2")
    driver.write(Gpu("GPU-2", mig=1, slices=[Gpu("MIG-2", total=2 * GIB, used=GIB)]))
    code, answer = ask(node, capsys, uid, "main", "GPU-2")
    assert (code, answer["id"], answer["memoryTotalMiB"]) == (0, "MIG-2", 2048)
    assert answer["memoryUsedMiB"] == 1024
    assert answer["coresUtilizationPercent"] == {"absent": "unsupported"}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--interval", "0s"], "--interval: '0s' is no time to wait; say 2s"),
        (["--interval", "soon"], "'soon' is not a duration; write it like 2s, 500ms or 1h30m"),
        (["--host-proc", "/dev/null"], "/dev/null: is not a directory; give the /proc of the host"),
        (
            ["--figures", "work/nobody", "main", "GPU-0"],
            "--figures: there is no pod work/nobody on this node",
        ),
    ],
)
def test_what_cannot_work_is_one_line(
    node: SimulatedNode, capsys: Captured, more: list[str], says: str
) -> None:
    assert main(options(node, "--source", "cache", *more)) == 2
    assert capsys.readouterr() == ("", f"hami-cache: {says}\n")


def test_caches_need_a_place(capsys: Captured) -> None:
    assert main(["slices", "--pods", "none"]) == 2
    assert "set HOOK_PATH, give --hook-path, or ask --source nvml" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_watch_prints_a_line_a_pass_and_each_remark_once(
    node: SimulatedNode, number: signal.Signals
) -> None:
    node.pod("unread", "GPU-0,NVIDIA")
    arguments = options(node, "--source", "cache", "--watch", "--interval", "10ms")
    program = "import sys; from hami_cache.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watch:
        assert watch.stdout is not None
        first, second = watch.stdout.readline(), watch.stdout.readline()
        node.tree.pods["trainer"].phase = "Succeeded"
        node.tree.save()
        while watch.stdout.readline() != "null\n":
            pass
        watch.send_signal(number)
        _, err = watch.communicate()
    assert json.loads(first) == json.loads(second)
    assert watch.returncode == 0
    [remark] = err.splitlines()
    assert remark.startswith("pod default/unread: hami.io/vgpu-devices-allocated: ")
