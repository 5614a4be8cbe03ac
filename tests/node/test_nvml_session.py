"""NVML as a guest: absent, hung, given back when the MIG layout changes, and found again."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hami_cache.node.nvml_session import Nvml
from hami_cache.node.nvml_status import NvmlUnavailableError
from hami_cache.node.rows import PartitionReader, PartitionTarget, ProcessReader
from hami_cache.testing.nvml import SONAME, FakeNvml, Gpu, library

INIT = "nvmlInitWithFlags"
MEMORY = "nvmlDeviceGetMemoryInfo"
FOREVER = 30.0


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeNvml]:
    with FakeNvml.loaded(tmp_path) as fake:
        fake.write(Gpu("GPU-0"), Gpu("GPU-1"))
        yield fake


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "hami" / "hami-mig-apply.lock"


@pytest.fixture
def nvml(fake: FakeNvml, lock: Path) -> Iterator[Nvml]:
    with Nvml(lock=lock, lock_looks=0.01, deadline=FOREVER) as nvml:
        yield nvml


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for another thread; the test's own timeout ends it if that never happens."""
    while not condition():
        time.sleep(0.005)


def test_it_serves_both_readers_of_the_slices(nvml: Nvml) -> None:
    readers: tuple[ProcessReader, PartitionReader] = (nvml, nvml)
    assert [device.id for device in readers[0].processes(["GPU-1", "GPU-0"])] == ["GPU-1", "GPU-0"]
    assert readers[1].partitions([]) == []


def test_up_and_down(fake: FakeNvml, lock: Path) -> None:
    nvml = Nvml(lock=lock)
    assert nvml.status.reason == "stopped"
    assert nvml.host_devices().status.reason == "stopped"
    nvml.start()
    assert nvml.status.up
    assert fake.held()
    nvml.shutdown()
    assert nvml.status.reason == "stopped"
    assert not fake.held()
    with pytest.raises(NvmlUnavailableError, match="not started"):
        nvml.processes([])
    with nvml:
        assert len(nvml.host_devices().devices) == 2
    assert not fake.held()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (999, "transient_driver_error"),
        (9, "driver_not_loaded"),
        (4, "permission"),
        (18, "driver_library_mismatch"),
        (12345, "transient_driver_error"),
    ],
)
def test_init_fails_at_start_and_works_later(
    fake: FakeNvml, lock: Path, code: int, reason: str
) -> None:
    """F5: each pass is an attempt."""
    fake.write(Gpu("GPU-0"), returns={INIT: [code, code, 0]})
    with Nvml(lock=lock) as nvml:
        assert nvml.status.reason == reason
        assert f"({code})" in nvml.status.detail
        with pytest.raises(NvmlUnavailableError) as caught:
            nvml.processes(["GPU-0"])
        assert caught.value.reason == reason
        report = nvml.host_devices()
        assert report.status.up
        assert len(report.devices) == 1


def test_the_driver_is_loaded_later(fake: FakeNvml, lock: Path) -> None:
    fake.remove()
    with Nvml(lock=lock) as nvml:
        assert nvml.status.reason == "driver_not_loaded"
        fake.write(Gpu("GPU-0"))
        assert nvml.host_devices().status.up


def test_a_session_that_cannot_count_is_opened_anew(fake: FakeNvml, nvml: Nvml) -> None:
    fake.write(Gpu("GPU-0"), returns={"nvmlDeviceGetCount_v2": [999]})
    assert nvml.host_devices().status.reason == "transient_driver_error"
    assert not fake.held()
    fake.write(Gpu("GPU-0"))
    assert nvml.host_devices().status.up


CHILD = """
import json, shutil, sys
from pathlib import Path
from hami_cache.node.nvml_session import Nvml
assert "pynvml" not in sys.modules, "imported before it is needed"
lock, source, target = map(Path, sys.argv[1:])
with Nvml(lock=lock) as nvml:
    before = nvml.status
    source.rename(target)
    report = nvml.host_devices()
print(json.dumps([before.reason, before.detail, report.status.up, len(report.devices)]))
"""


def test_the_library_comes_after_the_start(tmp_path: Path) -> None:
    """F5: in a process of its own, because a library that was loaded never leaves."""
    fake = FakeNvml(tmp_path)
    fake.write(Gpu("GPU-0"))
    folder, waiting = tmp_path / "lib", tmp_path / "waiting"
    folder.mkdir()
    shutil.copy(library(), waiting)
    arguments = [str(tmp_path / "lock"), str(waiting), str(folder / SONAME)]
    child = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments],
        env=fake.environment(folder),
        check=True,
        capture_output=True,
    )
    reason, detail, up, count = json.loads(child.stdout)
    assert reason == "library_not_found"
    assert "libnvidia-ml.so.1" in detail
    assert (up, count) == (True, 1)


def test_the_lock_of_mig_apply(fake: FakeNvml, nvml: Nvml, lock: Path) -> None:
    """F10: given back while the lock is there, not called, taken up again after it."""
    assert lock.parent.is_dir()
    lock.touch()
    eventually(lambda: bool(fake.calls("nvmlShutdown")))
    assert not fake.held()
    fake.forget_calls()
    assert nvml.host_devices().status.reason == "mig_apply"
    with pytest.raises(NvmlUnavailableError, match="MIG layout"):
        nvml.processes(["GPU-0"])
    with pytest.raises(NvmlUnavailableError, match="MIG layout"):
        nvml.partitions([PartitionTarget("GPU-0", "1g.10gb", (), "MIG-0")])
    assert fake.calls() == []
    lock.unlink()
    assert nvml.host_devices().status.up


def test_a_lock_that_is_there_at_the_start(fake: FakeNvml, lock: Path) -> None:
    lock.parent.mkdir()
    lock.symlink_to("nowhere")
    with Nvml(lock=lock) as nvml:
        assert nvml.status.reason == "mig_apply"
        assert fake.calls() == []
        lock.unlink()
        assert nvml.host_devices().status.up


def test_a_lock_that_comes_during_a_pass_ends_it(fake: FakeNvml, lock: Path) -> None:
    """The call that is under way cannot be helped; after it nothing but the shutdown is called."""
    with Nvml(lock=lock, deadline=FOREVER, lock_looks=FOREVER) as nvml:
        fake.write(Gpu("GPU-0", extra=[f"hang {MEMORY}"]), Gpu("GPU-1"))
        fake.forget_calls()
        reports = []
        scrape = threading.Thread(target=lambda: reports.append(nvml.host_devices()))
        scrape.start()
        eventually(fake.hung)
        lock.touch()
        fake.write(Gpu("GPU-0"), Gpu("GPU-1"))
        scrape.join()
        assert reports[0].status.reason == "mig_apply"
        assert [call.name for call in fake.calls()][-2:] == [MEMORY, "nvmlShutdown"]


def test_the_directory_of_the_lock_cannot_be_made(
    fake: FakeNvml, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with Nvml(lock=tmp_path / "file" / "lock") as nvml:
        assert nvml.status.up
    assert "cannot create" in caplog.text


def test_a_hung_driver_holds_nobody_up(fake: FakeNvml, lock: Path) -> None:
    with Nvml(lock=lock, deadline=0.5) as nvml:
        fake.write(Gpu("GPU-0"), Gpu("GPU-1", extra=[f"hang {MEMORY}"]), Gpu("GPU-2"))
        report = nvml.host_devices()
        assert report.status.reason == "timeout"
        assert [device.index for device in report.devices] == [0]
        assert [(bad.index, bad.reason) for bad in report.bad] == [(1, "timeout"), (2, "timeout")]
        fake.forget_calls()
        with pytest.raises(NvmlUnavailableError, match="did not answer"):
            nvml.processes(["GPU-0"])
        assert fake.calls() == []
        fake.write(Gpu("GPU-0"), Gpu("GPU-1"))
        eventually(lambda: nvml.host_devices().status.up)


def test_a_hung_driver_does_not_hold_up_the_end(fake: FakeNvml, lock: Path) -> None:
    nvml = Nvml(lock=lock, deadline=0.05)
    fake.write(Gpu("GPU-0"), hang=INIT)
    nvml.start()
    assert nvml.status.reason == "timeout"
    nvml.shutdown()
    assert nvml.status.reason == "stopped"
    fake.write(Gpu("GPU-0"))
    eventually(lambda: bool(fake.calls("nvmlShutdown")))


def test_nvml_given_back_after_each_pass(fake: FakeNvml, lock: Path) -> None:
    """F10: "between scrapes if asked"."""
    with Nvml(lock=lock, keep_open=False) as nvml:
        for _ in range(2):
            assert nvml.host_devices().status.up
            assert not fake.held()


def test_many_threads_at_once(nvml: Nvml) -> None:
    results: list[int] = []

    def scrape() -> None:
        results.extend(len(nvml.host_devices().devices) for _ in range(5))

    threads = [threading.Thread(target=scrape) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [2] * 40


def test_descriptors_stay_flat(fake: FakeNvml, nvml: Nvml, lock: Path) -> None:
    def descriptors() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    nvml.host_devices()
    before = descriptors()
    for _ in range(20):
        lock.touch()
        assert nvml.host_devices().status.reason == "mig_apply"
        lock.unlink()
        assert nvml.host_devices().status.up
    assert descriptors() == before


def test_a_cause_is_logged_once(
    fake: FakeNvml, lock: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hami_cache")
    fake.remove()
    with Nvml(lock=lock) as nvml:
        for _ in range(3):
            nvml.host_devices()
        fake.write()
        for _ in range(3):
            nvml.host_devices()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "driver_not_loaded" in caplog.text
