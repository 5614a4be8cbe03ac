"""Files that are cut, grown, deleted or replaced while threads read them: "gone", and we live."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hami_cache import SourceError, layouts, open_cache
from hami_cache.read import seqlock
from hami_cache.read.cache import Cache
from hami_cache.read.figures import FigurePlan
from hami_cache.read.seqlock import Bounds, Mapping, Places, Target
from hami_cache.spec.layout import Layout
from hami_cache.testing import CacheBuilder
from hami_cache.testing.writers import Order, Writer

LAYOUTS = list(layouts().values())
NEWEST = LAYOUTS[-1]
READERS = 3
ROUNDS = 20

ANSWERS = {
    seqlock.STATUS_READ,
    seqlock.STATUS_GONE,
    seqlock.STATUS_NOT_INITIALISED,
    seqlock.STATUS_UNSETTLED,
}


def builder(layout: Layout = NEWEST) -> CacheBuilder:
    return CacheBuilder(layout).process(71, memory=[1 << 30]).process(72, memory=[1 << 20])


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    with open_cache(builder().write(tmp_path / "x.cache")) as opened:
        yield opened


def statuses(cache: Cache, *, check: bool = True) -> list[int]:
    """What every native entry says of a cache, the checked small reads included."""
    target = cache.target(check=check)
    figures = FigurePlan([target]).read()
    copy = seqlock.copy(target, Bounds())
    gone = seqlock.processes(target) is None
    return [int(figures.reports["status"][0]), copy.status, int(gone)]


@pytest.mark.parametrize("size", [0, 1, 4096, 100_000, NEWEST.sizeof - 1])
@pytest.mark.parametrize("check", [True, False], ids=["fstat", "sigbus"])
def test_a_cut_file_is_gone(cache: Cache, size: int, check: bool) -> None:
    assert statuses(cache, check=check) == [seqlock.STATUS_READ, seqlock.STATUS_READ, 0]
    os.truncate(cache.path, size)
    figures, copy, _ = statuses(cache, check=check)
    last_page = size >= NEWEST.sizeof - 4096  # nothing is missing that a mapping would notice
    assert copy == (seqlock.STATUS_GONE if check or not last_page else seqlock.STATUS_READ)
    if check or size == 0:
        assert figures == seqlock.STATUS_GONE
    else:  # a piece of the first page says that nobody initialised it
        assert figures in (copy, seqlock.STATUS_NOT_INITIALISED)
    with pytest.raises(SourceError, match="gone"):
        cache.snapshot()


def test_nothing_of_a_cut_file_is_left_in_the_answer(cache: Cache) -> None:
    plan = FigurePlan([cache.target(check=False)])
    assert plan.read().values[0, 0, 0] == (1 << 30) + (1 << 20)
    os.truncate(cache.path, 4096)
    figures = plan.read()
    assert not figures.values.any()
    assert not figures.flags.any()
    assert figures.reports["status"] == seqlock.STATUS_GONE
    assert figures.reports["device_num"] == 0


def test_one_file_that_is_gone_does_not_hurt_its_neighbours(tmp_path: Path) -> None:
    caches = [open_cache(builder().write(tmp_path / f"{i}.cache")) for i in range(3)]
    os.truncate(caches[1].path, 0)
    figures = FigurePlan([cache.target(check=False) for cache in caches]).read()
    assert figures.reports["status"].tolist() == [0, seqlock.STATUS_GONE, 0]
    assert figures.values[:, 0, 0].tolist() == [(1 << 30) + (1 << 20), 0, (1 << 30) + (1 << 20)]
    for cache in caches:
        cache.close()


def test_a_deleted_or_replaced_file_is_gone_and_a_grown_one_is_not(cache: Cache) -> None:
    os.truncate(cache.path, cache.file_size + 5000)
    assert statuses(cache) == [0, 0, 0]
    builder().write(cache.path.with_name("new"))
    cache.path.with_name("new").replace(cache.path)
    assert statuses(cache) == [seqlock.STATUS_GONE, seqlock.STATUS_GONE, 1]
    assert statuses(cache, check=False) == [0, 0, 0]


def test_a_file_that_comes_back_is_read_again(cache: Cache) -> None:
    content = cache.path.read_bytes()
    os.truncate(cache.path, 0)
    assert statuses(cache)[0] == seqlock.STATUS_GONE
    cache.path.write_bytes(content)
    assert statuses(cache) == [0, 0, 0]


def vandals(path: Path) -> dict[str, Callable[[], None]]:
    content = path.read_bytes()

    def cut_to(size: int) -> Callable[[], None]:
        def work() -> None:
            os.truncate(path, size)
            path.write_bytes(content)

        return work

    def replace() -> None:
        path.with_name("new").write_bytes(content)
        path.with_name("new").replace(path)

    def grow() -> None:
        os.truncate(path, len(content) + 4096)
        os.truncate(path, len(content))

    return {"to 0": cut_to(0), "to 4096": cut_to(4096), "replaced": replace, "grown": grow}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("crime", ["to 0", "to 4096", "replaced", "grown"])
def test_many_threads_survive_a_vandal(layout: Layout, crime: str, tmp_path: Path) -> None:
    path = builder(layout).write(tmp_path / "x.cache")
    seen: set[int] = set()
    done = threading.Event()

    def read(cache: Cache) -> None:
        target = cache.target(check=False)
        plan = FigurePlan([target] * 8)
        while not done.is_set():
            seen.update(plan.read().reports["status"].tolist())
            seen.add(seqlock.copy(target, Bounds()).status)
            seqlock.processes(target)

    wanted = {seqlock.STATUS_READ}
    if crime.startswith("to"):
        wanted.add(seqlock.STATUS_GONE)
    with open_cache(path, layout=layout) as cache, ThreadPoolExecutor(READERS) as pool:
        jobs = [pool.submit(read, cache) for _ in range(READERS)]
        commit, rounds = vandals(path)[crime], 0
        while not wanted <= seen or rounds < ROUNDS:
            commit()
            rounds += 1
        done.set()
        for job in jobs:
            job.result()
    assert seen <= ANSWERS


@pytest.mark.parametrize("order", ["cut", "delete", "replace"])
def test_a_writer_that_ruins_its_own_file(order: Order, tmp_path: Path) -> None:
    """The writer's own processes die of the cut, as libvgpu's would; the reader does not."""
    with (
        Writer(tmp_path / "x.cache", NEWEST, processes=2) as writer,
        open_cache(writer.path) as cache,
    ):
        assert statuses(cache)[0] == seqlock.STATUS_READ
        writer.order(order, 4096)
        assert statuses(cache) == [seqlock.STATUS_GONE, seqlock.STATUS_GONE, 1]
        assert statuses(cache, check=False)[1] in ANSWERS


def test_the_lock_of_the_interpreter_is_not_held_while_waiting(cache: Cache) -> None:
    """A reader waits long for a stuck slot; another thread has to run to set it free."""
    place = NEWEST.field("procs[0].seqlock").offset
    content = bytearray(cache.path.read_bytes())
    content[place : place + 8] = (7).to_bytes(8, "little")
    cache.path.write_bytes(content)
    patient = Bounds(slot_ns=10**11, call_ns=10**11)
    for read in (
        lambda: int(FigurePlan([cache.target()]).read(patient).reports["stuck"][0]),
        lambda: seqlock.copy(cache.target(), patient).verdicts[0] - 1,
    ):
        with cache.path.open("r+b", buffering=0) as file, ThreadPoolExecutor(1) as pool:
            os.pwrite(file.fileno(), (7).to_bytes(8, "little"), place)
            entered = threading.Event()

            def wait(read: Callable[[], int] = read, entered: threading.Event = entered) -> int:
                entered.set()
                return read()

            job = pool.submit(wait)
            entered.wait()
            os.pwrite(file.fileno(), (8).to_bytes(8, "little"), place)
            assert job.result() == 0


def test_a_plan_outlives_its_cache(tmp_path: Path) -> None:
    cache = open_cache(builder().write(tmp_path / "x.cache"))
    plan = FigurePlan([cache.target(check=False)])
    cache.close()
    assert plan.read().values[0, 0, 0] == (1 << 30) + (1 << 20)
    with pytest.raises(ValueError, match="closed"):
        cache.target()


def test_a_mapping_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    with (tmp_path / "empty").open("wb") as file, pytest.raises(SourceError, match="map"):
        Mapping(file.fileno(), 4096)  # opened for writing only


def test_a_closed_mapping_and_a_short_mask_are_refused(cache: Cache) -> None:
    with pytest.raises(ValueError, match="1024 pids, not 3"):
        FigurePlan([cache.target(skip=array("i", [1, 2, 3]))])
    fd = os.open(cache.path, os.O_RDONLY)
    mapping = Mapping(fd, NEWEST.sizeof)
    mapping.close()
    with pytest.raises(ValueError, match="closed"):
        seqlock.copy(Target(mapping, NEWEST), Bounds())
    os.close(fd)


def test_small_reads_and_stores_stay_inside(cache: Cache) -> None:
    fd = os.open(cache.path, os.O_RDWR)
    mapping = Mapping(fd, NEWEST.sizeof, writable=True)
    switch = NEWEST.field("utilization_switch").offset
    assert mapping.store32(switch, -7) and mapping.load_words(Places(switch)) == [-7]
    for offset in (NEWEST.sizeof - 3, NEWEST.sizeof, 2**64 - 4, 2**63, 1):
        assert mapping.load_words(Places(switch, offset)) is None
        assert not mapping.store32(offset, 5)
    assert mapping.read_bytes(NEWEST.sizeof - 8, 8) is not None
    for offset, count in ((NEWEST.sizeof - 8, 9), (2**64 - 1, 2), (NEWEST.sizeof + 1, 0)):
        assert mapping.read_bytes(offset, count) is None
    os.truncate(cache.path, 0)
    assert mapping.load_words(Places(switch)) is None
    assert not mapping.store32(switch, 1)
    assert mapping.read_bytes(0, 64) is None
    os.close(fd)


# ---- other people's signals, in a process of their own ------------------------------------------

PREAMBLE = """
import faulthandler, mmap, os, signal, sys
from hami_cache import open_cache
path = sys.argv[1]
cache = open_cache(path)
foreign = mmap.mmap(os.open(path, os.O_RDWR), 0)
"""
OTHERS_FAULT = "os.truncate(path, 0); foreign[0]"
OURS_FAULT = """
os.truncate(path, 4096)
from hami_cache.read.figures import FigurePlan
assert FigurePlan([cache.target(check=False)]).read().reports["status"] == 1
print("alive", flush=True)
os.truncate(path, 3000000)
"""


def run(tmp_path: Path, *code: str) -> subprocess.CompletedProcess[str]:
    path = builder().write(tmp_path / "x.cache")
    script = PREAMBLE + "\n".join(code)
    return subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    "setup",
    [
        "",
        "faulthandler.enable()",
        "faulthandler.enable(); open_cache(path)",
        "faulthandler.enable(); faulthandler.disable()",
        "signal.signal(signal.SIGBUS, signal.SIG_IGN)",
        "signal.signal(signal.SIGBUS, signal.SIG_DFL)",
    ],
)
def test_a_fault_that_is_not_ours_still_kills(setup: str, tmp_path: Path) -> None:
    """And ours does not, whoever installed a handler after our file was opened."""
    done = run(tmp_path, setup, OURS_FAULT, OTHERS_FAULT, "print('survived')")
    assert done.stdout == "alive\n"
    assert done.returncode == -signal.SIGBUS
    # faulthandler may speak once or twice, not for ever.
    assert done.stderr.count("Fatal Python error") <= 2
    assert ("Fatal Python error" in done.stderr) == setup.endswith(("enable()", "open_cache(path)"))


@pytest.mark.parametrize(
    ("setup", "code"),
    [
        ("", -signal.SIGBUS),
        ("signal.signal(signal.SIGBUS, signal.SIG_IGN); open_cache(path)", 0),
        ("signal.signal(signal.SIGBUS, lambda *_: print('handled')); open_cache(path)", 0),
    ],
)
def test_a_signal_that_somebody_sends_does_what_it_did_before(
    setup: str, code: int, tmp_path: Path
) -> None:
    done = run(tmp_path, setup, "os.kill(os.getpid(), signal.SIGBUS)", "print('on')")
    assert done.returncode == code
    assert done.stdout == ("handled\non\n" if "handled" in setup else "on\n" if not code else "")


def test_reading_from_many_threads_needs_no_lock(tmp_path: Path) -> None:
    with open_cache(builder().write(tmp_path / "x.cache")) as cache:
        alone = FigurePlan([cache.target()]).read().values.copy()

        def read(_: int) -> bool:
            plan = FigurePlan([cache.target()])
            return all(bool(np.array_equal(plan.read().values, alone)) for _ in range(200))

        with ThreadPoolExecutor(READERS) as pool:
            assert all(pool.map(read, range(READERS)))
