"""Alive, dead or unknown: against real processes, and against /proc trees of other hosts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hami_cache.errors import ConfigError
from hami_cache.forensics.anomalies import Diagnosis
from hami_cache.forensics.liveness import HostProcesses
from hami_cache.model import Semaphore
from hami_cache.testing import CacheBuilder
from tests.forensics.helpers import detail, doctor, kinds, where

WAIT = [sys.executable, "-c", "import sys; sys.stdin.read()"]


@contextmanager
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A real process that lives until the end of the block."""
    child = subprocess.Popen(WAIT, stdin=subprocess.PIPE)
    try:
        yield child
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.wait()


class Proc:
    """A /proc of some host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "proc"
        self.process(1, 1)

    def process(self, pid: int, *inner: int, state: str = "S (sleeping)") -> Proc:
        """A process with its pids from the host's namespace inwards."""
        folder = self.folder / str(pid)
        folder.mkdir(parents=True)
        numbers = "\t".join(str(number) for number in (pid, *inner))
        (folder / "status").write_text(f"Name:\tpython\nState:\t{state}\nNSpid:\t{numbers}\n")
        return self


def cache(folder: Path, pid: int, hostpid: int) -> Path:
    builder = CacheBuilder("v1.2").device(sm_limit=50)
    builder.process(pid, hostpid, memory=[1 << 30], sm_util=[5], monitorused=[1 << 30])
    return builder.write(folder / "x.cache")


def state(found: Diagnosis) -> str:
    (one,) = found.processes
    return one.liveness.state


def test_a_real_process_is_alive_until_it_is_not(tmp_path: Path) -> None:
    with process() as child:
        path = cache(tmp_path, child.pid, child.pid)
        living = doctor(path, host=HostProcesses("/proc"))
    gone = doctor(path, host=HostProcesses("/proc"))
    assert (state(living), kinds(living)) == ("alive", set())
    assert (state(gone), kinds(gone)) == ("dead", {"dead_process"})


def test_a_real_process_that_nobody_collected_is_dead(tmp_path: Path) -> None:
    with process() as child:
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        found = doctor(cache(tmp_path, child.pid, child.pid), host=HostProcesses("/proc"))
    assert state(found) == "dead"
    assert "collected" in detail(found, "dead_process")


def test_the_innermost_pid_is_the_containers(tmp_path: Path) -> None:
    host = Proc(tmp_path).process(5000, 80, 7)
    assert state(doctor(cache(tmp_path, 7, 5000), host=HostProcesses(host.folder))) == "alive"


def test_a_number_that_another_process_has_now_is_no_sign_of_life(tmp_path: Path) -> None:
    host = Proc(tmp_path).process(5000, 99)
    found = doctor(cache(tmp_path, 7, 5000), host=HostProcesses(host.folder))
    assert (state(found), where(found, "dead_process")) == ("dead", ["procs[0]"])
    assert "another process" in detail(found, "dead_process")


def test_the_same_inner_pid_in_another_container_leaves_it_open(tmp_path: Path) -> None:
    host = Proc(tmp_path).process(5000, 99).process(6000, 7)
    found = doctor(cache(tmp_path, 7, 5000), host=HostProcesses(host.folder))
    assert (state(found), kinds(found)) == ("unknown", set())


@pytest.mark.parametrize(("inner", "expected"), [(7, "unknown"), (8, "dead")])
def test_without_a_host_pid_only_absence_from_the_whole_host_tells(
    inner: int, expected: str, tmp_path: Path
) -> None:
    host = Proc(tmp_path).process(6000, inner)
    found = doctor(cache(tmp_path, 7, 0), host=HostProcesses(host.folder))
    assert state(found) == expected


def test_a_proc_that_hides_processes_proves_no_death(tmp_path: Path) -> None:
    folder = tmp_path / "proc"
    (folder / "42").mkdir(parents=True)
    (folder / "42" / "status").write_text("NSpid:\t42\n")
    (folder / "self").symlink_to("42")  # a real /proc, of which pid 1 is not to be seen
    for hostpid in (5000, 0):
        found = doctor(cache(tmp_path, 7, hostpid), host=HostProcesses(folder))
        assert (state(found), kinds(found)) == (
            "unknown",
            {"hostpid_unknown"} - {hostpid and "hostpid_unknown"},
        )


def test_a_kernel_without_inner_pids_proves_nothing(tmp_path: Path) -> None:
    host = Proc(tmp_path)
    (host.folder / "5000").mkdir()
    (host.folder / "5000" / "status").write_text("Name:\tpython\n")
    for hostpid in (5000, 0):
        found = doctor(cache(tmp_path, 7, hostpid), host=HostProcesses(host.folder))
        assert state(found) == "unknown"


def test_a_process_that_cannot_be_looked_at_is_unknown(tmp_path: Path) -> None:
    host = Proc(tmp_path)
    (host.folder / "5000" / "status").mkdir(parents=True)
    assert state(doctor(cache(tmp_path, 7, 5000), host=HostProcesses(host.folder))) == "unknown"


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a directory"):
        HostProcesses(tmp_path / "nowhere")


def locked(folder: Path, hostpid: int) -> Path:
    builder = CacheBuilder("v1.2").device(sm_limit=50).set("owner_pid", 7)
    builder.set("sem", Semaphore(0, 2, 128))
    builder.process(7, hostpid, memory=[1 << 30], sm_util=[5], monitorused=[1 << 30])
    return builder.write(folder / "x.cache")


def test_an_owner_is_found_through_its_slot(tmp_path: Path) -> None:
    host = HostProcesses(Proc(tmp_path).process(6000, 7).folder)
    found = doctor(locked(tmp_path, hostpid=5000), host=host)
    assert kinds(found) == {"lock_owner_dead", "dead_process"}
    (lock,) = (f for f in found.findings if f.anomaly.kind == "lock_owner_dead")
    assert (lock.anomaly.severity, lock.anomaly.where, lock.offset) == ("error", "owner_pid", 16)


def test_an_owner_that_lives_only_holds_the_lock(tmp_path: Path) -> None:
    host = HostProcesses(Proc(tmp_path).process(5000, 7).folder)
    found = doctor(locked(tmp_path, hostpid=5000), host=host)
    assert kinds(found) == {"lock_held"}
    assert "alive" in detail(found, "lock_held")


def test_an_owner_without_a_slot_is_looked_for_on_the_whole_host(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2").set("owner_pid", 7).set("sem", Semaphore(0, 0, 128))
    path = builder.write(tmp_path / "x.cache")
    proc = Proc(tmp_path)
    assert kinds(doctor(path, host=HostProcesses(proc.folder))) == {"lock_owner_dead"}
    proc.process(6000, 7)
    assert kinds(doctor(path, host=HostProcesses(proc.folder))) == {"lock_held"}
