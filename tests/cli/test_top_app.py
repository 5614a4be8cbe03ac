"""``hami-cache top``, driven by textual's own test harness."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from hami_cache.cli.top_app import TopApp
from hami_cache.cli.top_reading import Details, NodeWatch, Reading
from hami_cache.cli.top_slots import SlotsScreen
from hami_cache.cli.top_table import KeyedTable
from hami_cache.node.containers import ContainerKey
from hami_cache.node.pods import FilePods
from hami_cache.testing import CacheBuilder, ContainerTree
from tests.cli.top_node import GIB, MARKUP, node

NEVER = 3600.0
"""An interval: passes are taken when a test asks for one."""


@pytest.fixture
def tree(tmp_path: Path) -> ContainerTree:
    return node(tmp_path / "hook")


class SlowWatch(NodeWatch):
    """A node whose next passes take until somebody lets them end."""

    def __init__(self, tree: ContainerTree) -> None:
        super().__init__(tree.root, FilePods(tree.pods_json))
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.error: Exception | None = None
        self.details_error: Exception | None = None

    def take(self, *, complete: bool = False) -> Reading:
        self.begun.set()
        self.go_on.wait()
        if self.error is not None:
            raise self.error
        return super().take(complete=True)

    def details(self, key: ContainerKey) -> Details | None:
        if self.details_error is not None:
            raise self.details_error
        return super().details(key)


def drive(
    tree: ContainerTree,
    test: Callable[[Pilot[None], View], Coroutine[Any, Any, None]],
    **options: Any,
) -> None:
    """Run the view over a node, and a test on it once the first pass is shown."""

    async def run() -> None:
        watch = SlowWatch(tree)
        app = TopApp(watch, options.pop("interval", NEVER), **options)
        async with app.run_test(size=(190, 30)) as pilot:
            view = View(pilot, app, watch)
            await view.until(lambda: view.rows() != [])
            try:
                await test(pilot, view)
            finally:
                watch.go_on.set()
        watch.close()

    asyncio.run(run())


class View:
    """What is on the screen."""

    def __init__(self, pilot: Pilot[None], app: TopApp, watch: SlowWatch) -> None:
        self._pilot, self.app, self.watch = pilot, app, watch

    async def until(self, condition: Callable[[], bool], *, press: str = "") -> None:
        """Wait until it is so, and press a key meanwhile."""
        while not condition():
            if press:
                await self._pilot.press(press)
            await self._pilot.pause(0.01)

    @property
    def table(self) -> KeyedTable:
        return self.app.screen.query_one(KeyedTable)

    def rows(self) -> list[list[str]]:
        return [[cell.plain for cell in self.table.get_row(key)] for key in self.table.rows]

    def pods(self) -> list[str]:
        return [row[0].rpartition("/")[2] for row in self.rows()]

    def text(self, name: str = "summary") -> str:
        return str(self.app.screen.query_one(f"#{name}", Static).render())


def test_lines_and_the_summary(tree: ContainerTree) -> None:
    async def test(_: Pilot[None], view: View) -> None:
        assert view.pods() == ["below", "cut", "over", "starting", "busy", "busy"]
        assert view.rows()[4][4:8] == [
            "0 GPU-aaaa", "━━━━━━━━╸─  14.00 GiB of 16.00 GiB", " 87 %", " 35 % of 50"
        ]  # fmt: skip
        assert view.rows()[0][1] == "[red]x[@cl…][link=a]"
        assert "5 containers, 3 to look at" in view.text()
        assert "1 not shown: pod_ended" in view.text()
        assert str(tree.containers) in view.text()

    drive(tree, test)


def test_the_keys_sort_and_turn(tree: ContainerTree) -> None:
    async def test(pilot: Pilot[None], view: View) -> None:
        assert "by pod ▲" in view.text()
        await pilot.press("r")
        assert view.pods() == ["busy", "busy", "starting", "over", "cut", "below"]
        assert (view.table.chosen or "").startswith(tree.pods["busy"].uid)
        assert "by pod ▼" in view.text()
        await pilot.press("s", "s", "s", "s", "s")
        assert "by memory ▼" in view.text()
        assert view.pods() == ["busy", "over", "busy", "below", "cut", "starting"]
        await pilot.press("s", "s", "s", "s", "s")
        assert "by pod ▲" in view.text()

    drive(tree, test)


def test_a_click_on_a_title_sorts_by_it_and_turns_it(tree: ContainerTree) -> None:
    async def test(pilot: Pilot[None], view: View) -> None:
        share = sum(
            column.get_render_width(view.table) for column in view.table.ordered_columns[:6]
        )
        await pilot.click(KeyedTable, offset=(share + 2, 0))
        await view.until(lambda: "by share ▼" in view.text())
        assert view.pods()[:2] == ["over", "busy"]
        await pilot.click(KeyedTable, offset=(share + 2, 0))
        await view.until(lambda: "by share ▲" in view.text())
        assert view.pods()[:2] == ["busy", "busy"]

    drive(tree, test, order="memory")


def test_a_filter_narrows_while_it_is_typed(tree: ContainerTree) -> None:
    async def test(pilot: Pilot[None], view: View) -> None:
        box = view.app.query_one(Input)
        assert not box.has_class("asked")
        await pilot.press("slash", *"team-a/")
        await view.until(lambda: view.pods() == ["busy", "busy"])
        assert box.has_class("asked") and "2 of 6 lines match" in view.text()
        await pilot.press("enter")
        assert view.app.focused is view.table and box.has_class("asked")
        await pilot.press("escape")
        await view.until(lambda: len(view.pods()) == 6)
        assert not box.has_class("asked")

    drive(tree, test)


def test_a_filter_from_the_command_line_is_shown(tree: ContainerTree) -> None:
    async def test(_: Pilot[None], view: View) -> None:
        assert view.pods() == ["over"]
        assert view.app.query_one(Input).has_class("asked")

    drive(tree, test, wanted="over_limit")


def test_a_pass_follows_what_happens_on_the_node(tree: ContainerTree) -> None:
    async def test(pilot: Pilot[None], view: View) -> None:
        await pilot.press("down", "down")
        assert (view.table.chosen or "").startswith(tree.pods["over"].uid)
        tree.add("aaa-new", "main", CacheBuilder("v1").process(7, memory=[GIB]))
        grown = CacheBuilder("v1-sem").device("GPU-aaaa", limit=4 * GIB, sm_limit=50)
        grown.process(5, 500, memory=[3 * GIB], sm_util=[80])
        grown.write(tree.directory("over", "main") / "x.cache")
        await pilot.press("space")
        await view.until(lambda: view.pods()[:1] == ["aaa-new"])
        assert view.rows()[3][2:3] == ["ready"] and view.rows()[3][6] == " 75 %"
        assert (view.table.chosen or "").startswith(tree.pods["over"].uid)

    drive(tree, test)


def test_the_view_answers_while_a_pass_takes_long(tree: ContainerTree) -> None:
    async def test(pilot: Pilot[None], view: View) -> None:
        view.watch.begun.clear()
        view.watch.go_on.clear()
        await pilot.press("space")
        await view.until(view.watch.begun.is_set)
        await pilot.press("r")
        assert "by pod ▼" in view.text()
        await pilot.press("slash", *"cut")
        await view.until(lambda: view.pods() == ["cut"])
        view.watch.go_on.set()

    drive(tree, test)


def test_nothing_is_read_while_it_is_paused_unless_asked_for(tree: ContainerTree) -> None:
    async def test(pilot: Pilot[None], view: View) -> None:
        await pilot.press("p")
        assert "PAUSED" in view.text()
        tree.add("later", "main")
        view.watch.begun.clear()
        assert not await asyncio.to_thread(view.watch.begun.wait, 0.2)
        await pilot.press("space")
        await view.until(lambda: "later" in view.pods())
        assert "PAUSED" in view.text()
        tree.add("latest", "main")
        await pilot.press("p")
        await view.until(lambda: "latest" in view.pods())
        assert "PAUSED" not in view.text()

    drive(tree, test, interval=0.02)


def test_a_pass_that_fails_is_told_and_the_next_one_shown(tree: ContainerTree) -> None:
    async def test(pilot: Pilot[None], view: View) -> None:
        view.watch.error = OSError(5, "Input/output [red]error")
        await pilot.press("space")
        await view.until(lambda: "the pass failed: OSError" in view.text())
        assert "[red]error" in view.text() and len(view.pods()) == 6
        view.watch.error = None
        await pilot.press("space")
        await view.until(lambda: "5 containers" in view.text())

    drive(tree, test)


def test_enter_shows_the_slots(tree: ContainerTree) -> None:
    async def test(pilot: Pilot[None], view: View) -> None:
        await pilot.press("ctrl+end", "enter")
        await view.until(lambda: isinstance(view.app.screen, SlotsScreen) and view.rows() != [])
        assert "team-a/busy main" in view.text("caches")
        assert "x.cache: v1.2, identified, 100% sure; 2 slots, priority 1" in view.text("caches")
        assert view.rows() == [
            ["x.cache", "0", "71", "7100", "running", "4", "stable", "yes",
             "0: 12.00 GiB, 1: 1.00 GiB", "0: 35 %, 1: 5 %"],
            ["x.cache", "1", "72", "7200", "running", "2", "stable", "yes", "0: 2.00 GiB", "none"],
        ]  # fmt: skip
        await pilot.press("s")
        await pilot.press("escape")
        assert view.pods()[0] == "below" and "by pod ▲" in view.text()

    drive(tree, test)


def test_slots_say_what_is_wrong_and_follow_the_file(tree: ContainerTree) -> None:
    async def test(pilot: Pilot[None], view: View) -> None:
        await pilot.press("enter")
        await view.until(lambda: isinstance(view.app.screen, SlotsScreen) and view.rows() != [])
        assert f"default/below {MARKUP}" in view.text("caches")
        assert view.rows()[0][6:9] == ["unbalanced", "yes", "0: -5 B"]
        assert "counter_underflow procs[0].used[0].total" in view.text("anomalies")
        directory = tree.directory("below", MARKUP)
        (directory / "x.cache").write_bytes(b"x" * 99)
        await view.until(lambda: "unknown_layout" in view.text("caches"), press="space")
        await view.until(lambda: "layout_unverified" in view.text("anomalies"), press="space")
        assert view.rows() == []
        (directory / "x.cache").unlink()
        await view.until(lambda: "no cache file yet" in view.text("caches"), press="space")
        directory.rmdir()
        await view.until(lambda: "the container is gone" in view.text("caches"), press="space")

    drive(tree, test)


def test_slots_that_cannot_be_read_are_told(tree: ContainerTree) -> None:
    async def test(pilot: Pilot[None], view: View) -> None:
        view.watch.details_error = RuntimeError("[red]unforeseen")
        await pilot.press("enter")
        await view.until(lambda: isinstance(view.app.screen, SlotsScreen))
        await view.until(lambda: "RuntimeError: [red]unforeseen" in view.text("anomalies"))
        view.watch.details_error = None
        await pilot.press("space")
        await view.until(lambda: view.rows() != [])

    drive(tree, test)


def test_a_uuid_that_is_there_twice_has_two_lines(tree: ContainerTree) -> None:
    twice = CacheBuilder("v1.2").device("GPU-same").device("GPU-same")
    tree.add("aaa", "main", twice.process(7, memory=[GIB, 2 * GIB]))

    async def test(_: Pilot[None], view: View) -> None:
        assert [row[4] for row in view.rows()[:2]] == ["0 GPU-same", "1 GPU-same"]

    drive(tree, test)


def test_a_hostile_crowd_of_lines_and_slots_is_bounded(
    tree: ContainerTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hami_cache.cli.top_app.MAX_LINES", 2)
    monkeypatch.setattr("hami_cache.cli.top_slots.MAX_SLOTS", 3)
    monkeypatch.setattr("hami_cache.cli.top_slots.MAX_ANOMALIES", 2)
    crowd = CacheBuilder("v1.2")
    for pid in range(1, 9):
        crowd.process(pid, memory=[1], seqlock=5)
    tree.add("a", "main", crowd)

    async def test(pilot: Pilot[None], view: View) -> None:
        assert view.pods() == ["a", "below"]
        assert "the first 2 are shown" in view.text()
        await pilot.press("enter")
        await view.until(lambda: isinstance(view.app.screen, SlotsScreen) and view.rows() != [])
        assert len(view.rows()) == 3
        lines = view.text("anomalies").splitlines()
        assert len(lines) == 3 and lines[2].startswith("and ")

    drive(tree, test)


def test_it_can_be_left_while_a_pass_takes_long(tree: ContainerTree) -> None:
    async def test(pilot: Pilot[None], view: View) -> None:
        view.watch.begun.clear()
        view.watch.go_on.clear()
        await pilot.press("space")
        await view.until(view.watch.begun.is_set)
        await pilot.press("q")
        await view.until(lambda: not view.app.is_running)

    drive(tree, test)
