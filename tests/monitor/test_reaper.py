"""Garbage collection on a real disk: what goes, what stays, and what removal never touches."""

from __future__ import annotations

import itertools
import logging
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from hami_cache.monitor.feedback import Feedback
from hami_cache.monitor.orphans import stamp_of
from hami_cache.monitor.reaper import GONE, Reaper, remove_directory
from hami_cache.monitor.rulings import PATIENCE_S, Action, Judge
from hami_cache.node.containers import ContainerTree
from hami_cache.node.pods import NoPods, Pod, PodView
from hami_cache.testing import CacheBuilder

HOUR = 3600.0
RESYNC = 300.0
PAST = time.time() - HOUR


class Pods:
    """A source that says what it is told to; `before` runs ahead of each view."""

    def __init__(self, *uids: str) -> None:
        self.answer = PodView(
            pods={uid: Pod(uid, uid, "default") for uid in uids}, known=True, fresh=True
        )
        self.before: Callable[[int], object] = lambda number: None
        self.views = 0

    def view(self) -> PodView:
        self.views += 1
        self.before(self.views)
        return self.answer

    def close(self) -> None:
        pass


class Node:
    """A HOOK_PATH whose directories look as old as they are made."""

    def __init__(self, hook: Path) -> None:
        self.root = hook / "containers"
        self.root.mkdir()
        self.tree = ContainerTree(hook)

    def add(
        self,
        uid: str,
        cache: CacheBuilder | None = None,
        changed: float = PAST,
        touched: float = PAST,
    ) -> Path:
        directory = self.root / f"{uid}_main"
        directory.mkdir()
        if cache is not None:
            path = cache.write(directory / "x.cache")
            os.utime(path, (touched, touched))
        os.utime(directory, (changed, changed))
        return directory

    def names(self) -> set[str]:
        return {entry.name.removesuffix("_main") for entry in self.root.iterdir()}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.tree.close()


def rulings(reaper: Reaper) -> dict[str, tuple[Action, str]]:
    return {r.name.removesuffix("_main"): (r.action, r.reason) for r in reaper.run()}


def busy() -> CacheBuilder:
    """A cache in which a process is registered."""
    return CacheBuilder("v1.2").process(7, memory=[1 << 20])


def test_what_is_old_and_has_no_pod_goes_and_nothing_else(node: Node) -> None:
    node.add("here", busy())
    node.add("gone", busy())
    node.add("bare")
    node.add("young", changed=time.time() - RESYNC + 30)
    reaper = Reaper(node.tree, Pods("here", "elsewhere"), RESYNC)
    found = rulings(reaper)
    assert found["gone"] == found["bare"] == ("removed", GONE)
    assert found["here"] == ("kept", "its pod is known")
    assert found["young"][1].startswith("changed 27")
    assert node.names() == {"here", "young"}
    assert (reaper.removed, reaper.refused, reaper.failed) == (2, 0, 0)
    assert set(rulings(reaper)) == {"here", "young"}
    assert reaper.removed == 2


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (PodView(), "there has been no complete list of pods yet"),
        (PodView(known=True, fresh=True), "the list of pods is empty"),
        (PodView(pods={"x": Pod("x", "x", "d")}, known=True), "the list of pods is not current"),
        (
            PodView(pods={"x": Pod("x", "x", "d")}, known=True, fresh=True, authoritative=False),
            "the source of pods cannot be sure which ones are gone",
        ),
    ],
)
def test_a_list_that_proves_nothing_removes_nothing(
    view: PodView, why: str, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    # C5, E3, K2: an error, an answer cut off, a list that is empty or selected by a guess.
    for uid in ("a", "b", "c"):
        node.add(uid)
    pods = Pods()
    pods.answer = view
    reaper = Reaper(node.tree, pods, RESYNC)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert rulings(reaper) == dict.fromkeys("abc", ("refused", why))
    assert node.names() == {"a", "b", "c"}
    assert reaper.refused == 6
    assert [r.getMessage() for r in caplog.records] == [f"removing nothing of unknown pods: {why}"]


def test_without_a_source_of_pods_nothing_goes(node: Node) -> None:
    node.add("a")
    assert rulings(Reaper(node.tree, NoPods(), RESYNC))["a"][0] == "refused"


def test_a_pod_that_ended_keeps_its_directory_until_its_object_goes(node: Node) -> None:
    # C7
    node.add("done", busy())
    node.add("looping", busy())
    node.add("other")
    pods = Pods("looping", "other")
    done = Pod("done", "done", "default", phase="Succeeded")
    present = pods.answer
    pods.answer = PodView(pods={**present.pods, "done": done}, known=True, fresh=True)
    reaper = Reaper(node.tree, pods, RESYNC)
    reaper.run()
    assert node.names() == {"done", "looping", "other"}
    pods.answer = present
    reaper.run()
    assert node.names() == {"looping", "other"}


def test_what_is_no_containers_directory_is_never_touched(node: Node, tmp_path: Path) -> None:
    # C1
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    for name in ("lost+found", "foo", "_x", "uid_", ".tmp", ".a_b", "a_\n"):
        (node.root / name).mkdir()
    (node.root / "uid_file").write_text("x")
    (node.root / "uid_link").symlink_to(outside)
    for path in node.root.iterdir():
        os.utime(path, (PAST, PAST), follow_symlinks=False)
    before = sorted(node.root.iterdir())
    found = Reaper(node.tree, Pods("x"), RESYNC).run()
    assert {r.action for r in found} == {"kept"} and len(found) == len(before)
    assert sorted(node.root.iterdir()) == before
    assert (outside / "precious").exists()


def test_removal_follows_no_link_and_takes_everything(node: Node, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    doomed = node.add("gone", CacheBuilder("v1.2"))
    (doomed / "dirlink").symlink_to(outside)
    (doomed / "up.cache").symlink_to(outside / "precious")
    (doomed / "hard").hardlink_to(outside / "precious")
    os.mkfifo(doomed / "fifo.cache")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(doomed / "socket.cache"))
    (doomed / "d.cache").mkdir()
    deep = doomed
    for _ in range(60):
        deep = deep / ("d" * 50)
        deep.mkdir()
        (deep / "file").write_text("x")
    os.utime(doomed, (PAST, PAST))
    node.add("here")
    assert rulings(Reaper(node.tree, Pods("here"), RESYNC))["gone"] == ("removed", GONE)
    assert node.names() == {"here"}
    assert [p.name for p in outside.iterdir()] == ["precious"]
    assert (outside / "precious").read_text() == "x"


def test_depth_costs_no_descriptors(tmp_path: Path) -> None:
    # Nor a stack: whoever goes down step by step has to hold each level open.
    (tmp_path / "uid_main" / "/".join("d" * 100)).mkdir(parents=True)
    stamp = stamp_of((tmp_path / "uid_main").stat())
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 10, before[1]))
    try:
        remove_directory(tmp_path, "uid_main", stamp, time.monotonic() + 60)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert not [*tmp_path.iterdir()]


def test_a_directory_swapped_for_a_link_at_the_last_moment_is_not_followed(
    node: Node, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    doomed = node.add("gone")
    node.add("here")

    def swap(number: int) -> None:
        if number == 2:  # the view that is asked for right before the removal
            doomed.rmdir()
            doomed.symlink_to(outside)

    pods = Pods("here")
    pods.before = swap
    reaper = Reaper(node.tree, pods, RESYNC)
    assert rulings(reaper)["gone"] == ("failed", "Not a directory")
    assert (outside / "precious").exists() and reaper.failed == 1


@pytest.mark.parametrize("change", ["new entry", "new directory"])
def test_a_directory_that_changes_at_the_last_moment_stays(change: str, node: Node) -> None:
    doomed = node.add("gone")
    node.add("here")

    def meddle(number: int) -> None:
        if number == 2 and change == "new entry":
            (doomed / "new.cache").write_text("x")
        elif number == 2:
            doomed.rename(doomed.with_name("moved"))
            doomed.mkdir()
            (doomed / "new.cache").write_text("x")

    pods = Pods("here")
    pods.before = meddle
    assert rulings(Reaper(node.tree, pods, RESYNC))["gone"] == (
        "failed",
        "the directory has just changed",
    )
    assert (doomed / "new.cache").exists()


def test_a_pod_or_a_doubt_that_comes_at_the_last_moment_stops_the_removal(node: Node) -> None:
    for uid in ("a", "b", "c"):
        node.add(uid)
    pods = Pods("here")

    def change(number: int) -> None:
        if number == 2:
            pods.answer = Pods("here", "a").answer
        elif number == 3:
            pods.answer = PodView(pods=pods.answer.pods, known=True, fresh=False)

    pods.before = change
    found = rulings(Reaper(node.tree, pods, RESYNC))
    assert found["a"] == ("kept", "its pod is known")
    assert found["b"] == found["c"] == ("refused", "the list of pods is not current")
    assert node.names() == {"a", "b", "c"}


HOLDER = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
mapping = mmap.mmap(fd, 4096)
os.close(fd)
print("mapped", flush=True)
sys.stdin.read()
"""


def test_a_cache_that_a_process_has_mapped_keeps_its_directory(node: Node) -> None:
    # As libvgpu holds it: mapped, its descriptor closed. The pod list is wrong, and says "fresh".
    directory = node.add("alive", CacheBuilder("v1.2"))
    node.add("here")
    reaper = Reaper(node.tree, Pods("here"), RESYNC)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory / "x.cache")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"mapped\n"
        assert rulings(reaper)["alive"] == ("kept", "a process has x.cache open")
        holder.kill()
    assert rulings(reaper)["alive"] == ("removed", GONE)


def test_our_own_feedback_loop_lets_go_of_what_has_no_pod(node: Node) -> None:
    node.add("gone", CacheBuilder("v1.2", recent_kernel=2**31 - 1))
    node.add("here")
    feedback = Feedback(node.tree)
    feedback.run()
    os.utime(node.root / "gone_main" / "x.cache", (PAST, PAST))
    without = Reaper(node.tree, Pods("here"), RESYNC)
    assert rulings(without)["gone"] == ("kept", "a process has x.cache open")
    reaper = Reaper(node.tree, Pods("here"), RESYNC, orphaned=feedback.leave_out)
    assert rulings(reaper)["gone"] == ("removed", GONE)
    assert [d.container.pod_uid for d in feedback.run()] == ["here"]


@pytest.mark.parametrize(
    ("touched_ago", "launched_ago", "action"),
    [
        (60, None, "kept"),
        (HOUR, 60, "kept"),
        (HOUR, 3000, "removed"),
        (HOUR, -(10**6), "removed"),  # nobody launches tomorrow
        (HOUR, -(2**63), "removed"),
        (HOUR, None, "removed"),
    ],
)
def test_signs_of_life(
    touched_ago: float, launched_ago: int | None, action: str, node: Node
) -> None:
    now = time.time()
    launched = 0 if launched_ago is None else int(now) - launched_ago
    cache = CacheBuilder("v1.2", last_kernel_time=launched)
    node.add("gone", cache, touched=now - touched_ago)
    node.add("here")
    assert rulings(Reaper(node.tree, Pods("here"), RESYNC))["gone"][0] == action


def test_time_stamps_set_into_the_future_keep_nothing_for_ever(node: Node) -> None:
    future = time.time() + 100 * HOUR
    node.add("gone", CacheBuilder("v1.2"), changed=future, touched=future)
    node.add("here")
    now = time.time()
    reaper = Reaper(node.tree, Pods("here"), RESYNC, clock=lambda: now)
    assert rulings(reaper)["gone"][0] == "kept"
    now += RESYNC + 10
    assert rulings(reaper)["gone"] == ("removed", GONE)


def test_a_clock_set_back_removes_nothing(node: Node) -> None:
    node.add("gone")
    node.add("here")
    reaper = Reaper(node.tree, Pods("here"), RESYNC, clock=lambda: PAST - 10 * HOUR)
    assert rulings(reaper)["gone"][0] == "kept"


def test_most_of_a_node_goes_only_after_a_second_look(node: Node) -> None:
    # C5: a list that lacks most of the running pods and claims to be complete.
    for uid in ("a", "b"):
        node.add(uid, busy())
    node.add("here", busy())
    now = time.time()
    pods = Pods("here")
    reaper = Reaper(node.tree, pods, RESYNC, clock=lambda: now)
    waiting = (
        "refused",
        "most of the directories would go at once: waiting whether that stays so for 600 s",
    )
    assert rulings(reaper) == {"a": waiting, "b": waiting, "here": ("kept", "its pod is known")}
    now += PATIENCE_S - 1
    assert rulings(reaper)["a"] == waiting
    complete, pods.answer = pods.answer, Pods("here", "a").answer
    found = rulings(reaper)
    assert found["b"] == ("removed", GONE), "one of three is no mistake"
    pods.answer = complete
    node.add("b", busy())
    now += 10
    assert rulings(reaper)["a"] == waiting, "it begins anew"
    now += PATIENCE_S
    assert rulings(reaper)["a"] == ("removed", GONE)
    assert node.names() == {"here"}


def test_empty_directories_need_no_second_look(node: Node) -> None:
    node.add("a")
    node.add("b", CacheBuilder("v1.2").process(0, status=0))
    assert {action for action, _ in rulings(Reaper(node.tree, Pods("x"), RESYNC)).values()} == {
        "removed"
    }


@pytest.fixture
def public_root() -> Iterator[Path]:
    """A folder that anybody may enter."""
    root = Path(tempfile.mkdtemp(dir="/tmp"))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes somebody else")
def test_where_the_kernel_says_nothing_a_node_is_never_emptied(public_root: Path) -> None:
    # Neither the files' owner nor privileged: no lease, so processes cannot be told from leftovers.
    node = Node(public_root)
    for uid in ("a", "b"):
        node.add(uid, busy())
    now = time.time()
    reaper = Reaper(node.tree, Pods("x"), RESYNC, clock=lambda: now)
    os.seteuid(65534)
    try:
        reaper.run()
        now += 10 * PATIENCE_S
        found = rulings(reaper)
    finally:
        os.seteuid(0)
        node.tree.close()
    text = (
        "most of the directories would go at once, and whether their processes live cannot be told"
    )
    assert found == dict.fromkeys("ab", ("refused", text))


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes somebody else")
def test_a_directory_that_may_not_be_removed_is_counted_and_said_once(
    public_root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(public_root)
    node.add("gone", CacheBuilder("v1.2"))
    locked = node.add("locked", CacheBuilder("v1.2"))
    (locked / "x.cache").chmod(0)
    node.add("here")
    reaper = Reaper(node.tree, Pods("here", "there"), RESYNC)
    os.seteuid(65534)
    try:
        with caplog.at_level(logging.WARNING, "hami_cache.monitor.reaper"):
            reaper.run()
            found = rulings(reaper)
    finally:
        os.seteuid(0)
        node.tree.close()
    assert found["gone"] == ("failed", "Permission denied")
    assert found["locked"] == ("kept", "cannot look into it: Permission denied")
    assert reaper.failed == 2
    ours = [r.getMessage() for r in caplog.records if r.name == "hami_cache.monitor.reaper"]
    assert ours == ["cannot remove gone_main: Permission denied"]
    assert node.names() == {"gone", "locked", "here"}


def test_a_flood_of_files_is_removed_in_pieces(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    doomed = node.add("gone")
    for number in range(30):
        (doomed / f"f{number}").write_text("x")
    os.utime(doomed, (PAST, PAST))
    node.add("here")
    steps = itertools.count(0.0, 0.05)  # a clock that moves whenever it is looked at
    monkeypatch.setattr(
        "hami_cache.monitor.reaper.time", SimpleNamespace(monotonic=lambda: next(steps))
    )
    reaper = Reaper(node.tree, Pods("here"), RESYNC)
    actions = []
    while "gone" in node.names():
        actions.append(rulings(reaper)["gone"][0])
        assert len(actions) < 10
    assert set(actions[:-1]) == {"unfinished"} and len(actions) >= 3
    assert (actions[-1], reaper.removed) == ("removed", 1)


def test_a_removal_that_had_begun_is_forgotten_with_its_cause(node: Node) -> None:
    node.add("a")
    judge = Judge(node.tree, RESYNC, lambda containers: None)
    node.tree.refresh()
    (container,) = node.tree.containers.values()
    judge.begun.add((container.path.name, container.stamp[:2]))
    _, due = judge.rule(Pods("other").answer, PAST)
    assert [orphan.name for orphan in due] == ["a_main"], "its age no longer counts"
    assert judge.begun
    judge.rule(Pods("a").answer, PAST)
    assert not judge.begun


@pytest.fixture
def mount() -> Iterator[Callable[[Path], None]]:
    """Mounts an empty file system, where that is allowed."""
    places: list[Path] = []

    def make(place: Path) -> None:
        if subprocess.run(["mount", "-t", "tmpfs", "none", place], check=False).returncode:
            pytest.skip("may not mount")
        places.append(place)

    yield make
    for place in places:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("gone_main/sub", "another file system is mounted in it"),
        ("gone_main", "another file system is mounted on it"),
    ],
)
def test_removal_stays_on_its_file_system(
    where: str, reason: str, node: Node, mount: Callable[[Path], None]
) -> None:
    (node.add("gone") / "sub").mkdir()
    node.add("here")
    mount(node.root / where)
    (node.root / where / "precious").write_text("x")
    os.utime(node.root / "gone_main", (PAST, PAST))
    assert rulings(Reaper(node.tree, Pods("here"), RESYNC))["gone"] == ("failed", reason)
    assert (node.root / where / "precious").exists()


def test_a_dry_run_and_a_switched_off_one_touch_nothing(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.add("gone")
    node.add("here")
    dry = Reaper(node.tree, Pods("here"), RESYNC, dry_run=True)
    with caplog.at_level(logging.INFO, "hami_cache.monitor.reaper"):
        assert rulings(dry)["gone"] == rulings(dry)["gone"] == ("would_remove", GONE)
    assert [r.getMessage() for r in caplog.records] == [f"would remove gone_main: {GONE}"]
    pods = Pods("here")
    assert Reaper(node.tree, pods, RESYNC, enabled=False).run() == []
    assert pods.views == 0
    assert node.names() == {"gone", "here"}
    assert dry.removed == 0


def test_a_missing_root_is_no_error(tmp_path: Path) -> None:
    # C11
    assert Reaper(ContainerTree(tmp_path), Pods("x"), RESYNC).run() == []
