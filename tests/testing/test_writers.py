"""The live writer: every mode writes what it says, every order does what it says."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from hami_cache import ConfigError, Snapshot, SourceError, identify, layouts, open_cache
from hami_cache.model import Slot
from hami_cache.read.cache import Cache
from hami_cache.spec.layout import Layout
from hami_cache.testing import CacheBuilder
from hami_cache.testing import writers as module
from hami_cache.testing.writers import Mode, Order, Writer, writer_program

LAYOUTS = list(layouts().values())
NEWEST = LAYOUTS[-1]
every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)


def until(cache: Cache, accept: Callable[[Snapshot], bool]) -> Snapshot:
    """The first snapshot that a writer at work makes acceptable; the test's timeout ends it."""
    while True:
        with contextlib.suppress(SourceError):  # the slots moved all the time
            if accept(found := cache.snapshot()):
                return found


def by_pid(snapshot: Snapshot, pid: int) -> Slot:
    return next(slot for slot in snapshot.slots if slot.pid == pid)


@every_layout
@pytest.mark.parametrize("mode", get_args(Mode))
def test_every_mode_moves_memory_in_every_layout(
    layout: Layout, mode: Mode, tmp_path: Path
) -> None:
    with (
        Writer(tmp_path / "x.cache", layout, mode, devices=2) as writer,
        open_cache(writer.path, layout=layout) as cache,
    ):
        found = until(cache, lambda s: any(slot.counted and slot.used[1].total for slot in s.slots))
        assert found.header.device_num == 2
        if mode != "churn":
            assert [slot.pid for slot in found.slots] == list(writer.pids)
            assert [slot.hostpid for slot in found.slots] == [writer.pids[0] + 100_000]
    assert identify(writer.path).verdict in ("identified", "ambiguous")


@every_layout
def test_a_still_process_holds_its_unit_and_a_clean_exit_clears_its_slot(
    layout: Layout, tmp_path: Path
) -> None:
    for exit in ("move", "clear"):
        path = tmp_path / exit
        with (
            Writer(path, layout, "still", processes=2, exit=exit) as writer,
            open_cache(path, layout=layout) as cache,
        ):
            found = until(cache, lambda s: s.devices[0].used.total == 1 + 256)
            assert [slot.used[0].context for slot in found.slots] == [1, 256]
            writer.order("exit", 0)
            slots = cache.snapshot().slots
            left = [(slot.pid, slot.status, slot.counted) for slot in slots]
            second = writer.pids[1]
            if exit == "move":  # and the moved slot's old place is left as it was
                assert left == [(second, 1, True), (second, 1, False)]
            else:
                assert left == [(0, 0, False), (second, 1, True)]


def test_a_killed_process_leaves_its_slot_and_a_dying_one_leaves_it_open(tmp_path: Path) -> None:
    with (
        Writer(tmp_path / "x.cache", NEWEST, "still", processes=3) as writer,
        open_cache(writer.path) as cache,
    ):
        until(cache, lambda s: s.devices[0].used.total == 1 + 256 + 65536)
        writer.order("kill", 0)
        writer.order("die", 1)
        writer.order("odd", 2)
        found = cache.snapshot()
        assert [slot.verdict for slot in found.slots] == ["stable", "stuck", "stuck"]
        assert by_pid(found, writer.pids[1]).used[0].total == 512
        for pid, alive in zip(writer.pids, (False, False, True), strict=True):
            assert Path(f"/proc/{pid}").exists() == alive


def test_an_odd_process_goes_on_writing(tmp_path: Path) -> None:
    with (
        Writer(tmp_path / "x.cache", NEWEST, pause_us=100) as writer,
        open_cache(writer.path) as cache,
    ):
        writer.order("odd", 0)
        before = cache.snapshot().slots[0].seqlock or 0
        found = until(cache, lambda s: (s.slots[0].seqlock or 0) > before + 10)
        assert found.slots[0].pid == writer.pids[0]


@every_layout
def test_a_watcher_fills_what_the_layout_has(layout: Layout, tmp_path: Path) -> None:
    builder = CacheBuilder(layout, recent_kernel=0, last_kernel_time=0)
    path = builder.write(tmp_path / "x.cache")
    with Writer(path, layout, "still", watcher_ms=1), open_cache(path, layout=layout) as cache:
        has_sm = layout.has("procs.device_util.sm")
        found = until(
            cache,
            lambda s: bool(
                s.slots[0].monitorused == (1,)
                and s.header.recent_kernel == 2
                and (not has_sm or (s.slots[0].device_util or ())[0].sm)
            ),
        )
        assert found.header.last_kernel_time != 0


@pytest.mark.parametrize("order", ["cut", "delete", "replace"])
def test_the_file_is_cut_deleted_and_replaced(order: Order, tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    with Writer(path, NEWEST, "still") as writer:
        inode = path.stat().st_ino
        writer.order(order, 5000)
        if order == "cut":
            assert path.stat().st_size == 5000
        elif order == "delete":
            assert not path.exists()
        else:
            assert path.stat().st_ino != inode
            assert identify(path).layout == NEWEST


def test_processes_end_with_their_writer(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x.cache", NEWEST, processes=2)
    writer.stop()
    writer.stop()
    assert not any(Path(f"/proc/{pid}").exists() for pid in writer.pids)
    with pytest.raises(ConfigError, match="gone"):
        writer.order("exit", 0)


def test_an_unusable_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"did not start: writer: .*Is a directory"):
        Writer(tmp_path, NEWEST)


def test_a_compiler_that_is_missing_or_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ConfigError, match=r"cannot run no-such-compiler.*name one in CC"):
        writer_program()
    monkeypatch.setenv("CC", "false")
    with pytest.raises(ConfigError, match="false failed"):
        writer_program()
    assert [p.name for p in (tmp_path / "hami-cache").iterdir()] == []
    monkeypatch.setattr(module, "SOURCE", tmp_path / "gone.c")
    with pytest.raises(ConfigError, match="source is not here"):
        writer_program()


def test_the_program_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = writer_program()
    assert os.access(first, os.X_OK)
    monkeypatch.setattr(module, "_compile", lambda command: pytest.fail("compiled again"))
    assert writer_program() == first
