"""``hami-cache allocwatch``, from its options to its end."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from hami_cache import open_cache
from hami_cache.allocwatch.overrides import parse
from hami_cache.cli.main import main
from tests.allocwatch.kubelet import Kubelet, pod_list

GOLDENS = Path(__file__).parent.parent / "data" / "goldens"
WAIT = 30.0


def listing(*ids: str, resource: str = "nvidia.com/gpu") -> bytes:
    devices = [{"resourceName": resource, "deviceIds": list(ids)}]
    containers = [{"name": "main", "devices": devices}]
    return pod_list([{"name": "p", "namespace": "work", "containers": containers}])


def write_profile(folder: Path, *uuids: str, total: int = 1000) -> Path:
    lines = ['version: "1.0"', "system:", '  driver_version: "550.163.01"', "device_defaults:"]
    lines += ["  memory:", f"    total_bytes: {total}", "devices:"]
    lines += [f'  - {{index: {index}, uuid: "{uuid}"}}' for index, uuid in enumerate(uuids)]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def used(file: Path) -> dict[str, object]:
    devices = parse(file.read_bytes()).devices
    return {index: (device or {})["memory"] for index, device in devices.items()}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = ("MOCK_NVML_CONFIG", "MOCK_NVML_OVERRIDES", "MOCK_NVML_PODRESOURCES_SOCKET")
    for name in (*ours, "HOOK_PATH", "NODE_NAME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Path]:
    """The socket of a kubelet where one container holds a replica of GPU-a."""
    with Kubelet(tmp_path / "s", lambda _: listing("GPU-a::3")):
        yield tmp_path / "s"


def test_once_publishes_and_prints(
    tmp_path: Path, kubelet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = write_profile(tmp_path, "GPU-a", "GPU-b")
    options = ["--profile", str(profile), "--socket", str(kubelet), "--policy", "fraction=0.25"]
    assert main(["allocwatch", *options, "--once"]) == 0
    assert used(tmp_path / "overrides.yaml") == {
        "0": {"used_bytes": 250, "free_bytes": 750},
        "1": {"used_bytes": 0, "free_bytes": 1000},
    }
    assert capsys.readouterr().out == "0 GPU-a used 250 free 750\n1 GPU-b used 0 free 1000\n"


def test_the_environment_says_where_things_are(
    tmp_path: Path, kubelet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOCK_NVML_CONFIG", str(write_profile(tmp_path / "driver", "GPU-a")))
    monkeypatch.setenv("MOCK_NVML_PODRESOURCES_SOCKET", str(kubelet))
    beside, named = tmp_path / "driver" / "overrides.yaml", tmp_path / "named.yaml"
    monkeypatch.setenv("MOCK_NVML_OVERRIDES", "")
    assert main(["allocwatch", "--once"]) == 0
    assert used(beside) == {"0": {"used_bytes": 500, "free_bytes": 500}}
    beside.unlink()
    monkeypatch.setenv("MOCK_NVML_OVERRIDES", str(named))
    assert main(["allocwatch", "--once"]) == 0
    assert named.exists() and not beside.exists()
    given = tmp_path / "given.yaml"
    assert main(["allocwatch", "--once", "--overrides", str(given)]) == 0
    assert given.exists()


def test_another_resource(tmp_path: Path) -> None:
    profile = write_profile(tmp_path, "GPU-a")
    with Kubelet(tmp_path / "s", lambda _: listing("GPU-a::0", resource="nvidia.com/gpu.shared")):
        options = ["--config", str(profile), "--socket", str(tmp_path / "s"), "--once"]
        assert main(["allocwatch", *options]) == 0
        assert used(tmp_path / "overrides.yaml")["0"] == {"used_bytes": 0, "free_bytes": 1000}
        assert main(["allocwatch", *options, "--resource-name", "nvidia.com/gpu.shared"]) == 0
        assert used(tmp_path / "overrides.yaml")["0"] == {"used_bytes": 500, "free_bytes": 500}


def test_a_pod_that_has_ended_is_looked_up(tmp_path: Path, kubelet: Path) -> None:
    profile = write_profile(tmp_path, "GPU-a")
    pod = {
        "metadata": {"uid": "uid-1", "name": "p", "namespace": "work"},
        "status": {"phase": "Succeeded"},
    }
    (tmp_path / "pods.json").write_text(json.dumps({"items": [pod]}))
    options = ["--profile", str(profile), "--socket", str(kubelet), "--once"]
    assert main(["allocwatch", *options, "--pods", f"file:{tmp_path / 'pods.json'}"]) == 0
    assert used(tmp_path / "overrides.yaml")["0"] == {"used_bytes": 0, "free_bytes": 1000}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--policy", "fraction=0"], "--policy: 'fraction=0' is no policy; fraction=F"),
        (["--policy", "fraction=1.5"], "'fraction=1.5' is no policy"),
        (["--policy", "fraction=nan"], "'fraction=nan' is no policy"),
        (["--policy", "half"], "'half' is no policy"),
        (["--policy", "measured"], "--policy: measured needs to know .*; give --hook-path and"),
        (["--interval", "2"], "'2' is not a duration; write it like 2s"),
        (["--interval", "-2s"], "--interval: '-2s' is no time to wait"),
        (["--pods", "kubectl"], "--pods: 'kubectl' names no source of pods"),
        (["--pods", "file:/nothing"], "/nothing: cannot read the pod list"),
        (["--pods", "api"], "KUBECONFIG: this is not a pod of a cluster"),
        (["--profile", "/nothing"], "/nothing: "),
        (["--max-message-mib", "0"], "--max-message-mib"),
    ],
)
def test_faults_are_one_line(
    options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = write_profile(tmp_path, "GPU-a")
    # No kubelet is asked before everything else is in order: this ends at once.
    assert main(["allocwatch", "--profile", str(profile), "--once", *options]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and captured.out == ""
    assert re.search(says, captured.err)


def test_an_answer_past_the_limit_is_refused_unless_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    big = listing("GPU-a", "x" * (2 << 20))
    options = ["--profile", str(write_profile(tmp_path, "GPU-a")), "--socket", str(tmp_path / "s")]
    with Kubelet(tmp_path / "s", lambda _: big):
        assert main(["allocwatch", *options, "--once", "--max-message-mib", "1"]) == 2
        assert "RESOURCE_EXHAUSTED" in capsys.readouterr().err
        assert not (tmp_path / "overrides.yaml").exists()
        assert main(["allocwatch", *options, "--once", "--max-message-mib", "3"]) == 0


@pytest.fixture
def hook_path(tmp_path: Path) -> Path:
    """A hook path where the container `main` of the pod `uid-1` has a cache of a real writer."""
    folder = tmp_path / "hook" / "containers" / "uid-1_main"
    folder.mkdir(parents=True)
    with gzip.open(GOLDENS / "v1.2--busy.cache.gz") as golden:
        (folder / "a.cache").write_bytes(golden.read())
    pod = {
        "metadata": {"uid": "uid-1", "name": "p", "namespace": "work"},
        "status": {"phase": "Running"},
    }
    (tmp_path / "pods.json").write_text(json.dumps({"items": [pod]}))
    return tmp_path / "hook"


def test_measured_memory_is_published(tmp_path: Path, hook_path: Path) -> None:
    cache = hook_path / "containers" / "uid-1_main" / "a.cache"
    with open_cache(cache) as opened:
        first, second = opened.snapshot().devices
    assert isinstance(first.used.total, int) and isinstance(second.used.total, int)
    assert isinstance(first.uuid, str) and isinstance(second.uuid, str)
    total = 2**40
    profile = write_profile(tmp_path, first.uuid, second.uuid, "GPU-idle", total=total)
    options = ["--profile", str(profile), "--socket", str(tmp_path / "s"), "--policy", "measured"]
    options += ["--hook-path", str(hook_path), "--pods", f"file:{tmp_path / 'pods.json'}"]
    # Two replicas of the first card are one measurement; the second has an id as HAMi makes it.
    ids = (f"{first.uuid}::0", f"{first.uuid}::1", f"{second.uuid}-7")
    with Kubelet(tmp_path / "s", lambda _: listing(*ids)):
        assert main(["allocwatch", *options, "--once"]) == 0
        assert 0 < first.used.total != second.used.total > 0
        assert used(tmp_path / "overrides.yaml") == {
            "0": {"used_bytes": first.used.total, "free_bytes": total - first.used.total},
            "1": {"used_bytes": second.used.total, "free_bytes": total - second.used.total},
            "2": {"used_bytes": 0, "free_bytes": total},
        }


def test_a_cache_that_cannot_be_read_leaves_the_reading_out(
    tmp_path: Path, hook_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (hook_path / "containers" / "uid-1_main" / "a.cache").write_bytes(b"x" * 4096)
    profile = write_profile(tmp_path, "GPU-a", "GPU-b")
    options = ["--profile", str(profile), "--socket", str(tmp_path / "s"), "--policy", "measured"]
    options += ["--hook-path", str(hook_path), "--pods", f"file:{tmp_path / 'pods.json'}"]
    with Kubelet(tmp_path / "s", lambda _: listing("GPU-a")):
        assert main(["allocwatch", *options, "--once"]) == 0
    assert used(tmp_path / "overrides.yaml") == {"1": {"used_bytes": 0, "free_bytes": 1000}}
    assert capsys.readouterr().out.startswith("0 GPU-a not published: unknown_layout\n")


@pytest.mark.parametrize("locked", [False, True], ids=["between polls", "waiting for the lock"])
def test_sigterm_is_a_clean_end(locked: bool, tmp_path: Path) -> None:
    def answer(context: grpc.ServicerContext) -> bytes:
        asked.release()
        return listing("GPU-a")

    asked = threading.Semaphore(0)
    file = tmp_path / "overrides.yaml"
    lock = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT)
    if locked:
        fcntl.flock(lock, fcntl.LOCK_EX)
    command = [
        sys.executable,
        "-c",
        "import sys; from hami_cache.cli.main import main; sys.exit(main())",
    ]
    options = ["--profile", str(write_profile(tmp_path, "GPU-a")), "--socket", str(tmp_path / "s")]
    with Kubelet(tmp_path / "s", answer):
        watcher = subprocess.Popen(
            [*command, "allocwatch", *options, "--interval", "10ms"], stderr=subprocess.PIPE
        )
        with watcher:
            # With the lock taken there is one list; without it, the second follows a publication.
            for _ in range(1 if locked else 2):
                assert asked.acquire(timeout=WAIT)
            watcher.send_signal(signal.SIGTERM)
            said = watcher.communicate(timeout=WAIT)[1].decode()
    os.close(lock)
    assert watcher.returncode == 0
    assert said.endswith("stopped\n") and "Traceback" not in said
    assert file.exists() is not locked
    assert sorted(entry.name for entry in tmp_path.glob(".*")) == []
