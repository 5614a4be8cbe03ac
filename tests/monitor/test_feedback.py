"""The feedback loop over real files: what it stores, what it leaves alone, whom a failure costs."""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_cache.monitor.contention import Outcome, Task, decide
from hami_cache.monitor.feedback import Decision, Feedback
from hami_cache.node.containers import ContainerKey, ContainerTree
from hami_cache.spec.registry import layout, layouts
from hami_cache.testing import CacheBuilder
from tests.goldens import golden

CARD = "GPU-11111111-2222-4333-8444-555555555555"


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[ContainerTree]:
    (tmp_path / "containers").mkdir()
    tree = ContainerTree(tmp_path)
    yield tree
    tree.close()


def cache(
    root: Path, name: str, file: str = "x.cache", its: str = "v1.2", card: str = CARD, **header: int
) -> Path:
    builder = CacheBuilder(its, **header).device(card).process(7, memory=[1 << 20])
    return builder.write(root / "containers" / f"uid-{name}_{name}" / file)


def numbers(path: Path, its: str = "v1.2") -> tuple[int, int]:
    """recent_kernel and utilization_switch as they lie in the file."""
    data = path.read_bytes()
    offsets = (
        layout(its).field("recent_kernel").offset,
        layout(its).field("utilization_switch").offset,
    )
    first, second = (int.from_bytes(data[o : o + 4], "little", signed=True) for o in offsets)
    return first, second


def by_name(decisions: list[Decision]) -> dict[str, Decision]:
    return {d.container.container: d for d in decisions}


def mapped(path: Path) -> set[str]:
    """The permissions of our mappings of a file."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[1] for line in lines if line.endswith(str(path))}


@pytest.mark.parametrize("its", list(layouts()))
def test_only_two_words_are_ever_written(its: str, tree: ContainerTree, tmp_path: Path) -> None:
    path = cache(tmp_path, "a", its=its, recent_kernel=3, utilization_switch=1)
    before = path.read_bytes()
    (decision,) = Feedback(tree).run()
    after = path.read_bytes()
    changed = {index for index in range(len(before)) if before[index] != after[index]}
    fields = [layout(its).field(name) for name in ("recent_kernel", "utilization_switch")]
    assert changed == {field.offset for field in fields}
    assert len(before) == len(after)
    assert (decision.recent_kernel_before, decision.recent_kernel_after) == (3, 2)
    assert (decision.switch_before, decision.switch_after) == (1, 0)
    assert decision.written and not decision.blocked and decision.reason == "running"
    assert decision.priority == 1


def test_every_container_is_decided_and_the_last_pass_stays_visible(
    tree: ContainerTree, tmp_path: Path
) -> None:
    cache(tmp_path, "high", priority=0, recent_kernel=9, utilization_switch=0)
    cache(tmp_path, "low", priority=1, recent_kernel=0, utilization_switch=0)
    cache(tmp_path, "quiet", card="GPU-other", recent_kernel=0, utilization_switch=0)
    feedback = Feedback(tree)
    decisions = by_name(feedback.run())
    assert by_name(feedback.decisions) == decisions
    assert {name: d.blocked for name, d in decisions.items()} == {
        "high": False, "low": True, "quiet": False,
    }  # fmt: skip
    assert decisions["low"].reason == f"blocked: uid-high_high of priority 0 runs on {CARD}"
    assert {name for name, d in decisions.items() if d.written} == {"high", "low"}
    assert (feedback.writes, feedback.failures) == (2, 0)
    feedback.run()
    assert feedback.writes == 3  # only the count of the high one moves now


def test_a_read_only_loop_decides_and_opens_nothing_for_writing(
    tree: ContainerTree, tmp_path: Path
) -> None:
    # C12: a read-only mount, or somebody else's loop.
    path = cache(tmp_path, "a", recent_kernel=2, utilization_switch=1)
    before = path.read_bytes(), path.stat().st_mtime_ns
    feedback = Feedback(tree, read_only=True)
    (decision,) = feedback.run()
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert (decision.recent_kernel_after, decision.switch_after) == (1, 0)
    assert decision.changes and not decision.written and not decision.error
    assert mapped(path) == {"r--s"}
    Feedback(tree).run()
    assert numbers(path) == (1, 0)


def test_a_cache_that_vanishes_or_is_cut_in_the_middle_costs_nobody_else(
    tree: ContainerTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {name: cache(tmp_path, name, card=f"GPU-{name}", recent_kernel=5) for name in "abcdef"}

    def interrupted(tasks: list[Task]) -> list[Outcome]:
        # Between reading and storing.
        os.truncate(paths["b"], 4096)
        paths["c"].unlink()
        shutil.rmtree(paths["d"].parent)
        paths["e"].rename(paths["e"].with_suffix(".moved"))
        shutil.copy(paths["f"], paths["e"])
        return decide(tasks)

    monkeypatch.setattr("hami_cache.monitor.feedback.decide", interrupted)
    feedback = Feedback(tree)
    decisions = by_name(feedback.run())
    assert {name for name, d in decisions.items() if d.written} == {"a", "f"}
    assert numbers(paths["a"]) == numbers(paths["f"]) == (4, 0)
    assert numbers(paths["e"]) == (5, 1), "another file had the name by then"
    assert {name: d.error for name, d in decisions.items() if d.error} == {
        "b": "the file is gone or was cut",
        "c": "cannot open: No such file or directory",
        "d": "cannot open the directory: No such file or directory",
        "e": "was replaced or linked while it was opened",
    }
    assert feedback.failures == 4

    monkeypatch.undo()
    decisions = by_name(feedback.run())
    assert not decisions["b"].written
    assert decisions["b"].reason.startswith("takes no part: unknown_layout: truncated")
    assert decisions["c"].error == "no cache file yet"
    assert "d" not in decisions
    assert numbers(paths["a"]) == (3, 0)


def test_a_cut_while_it_is_read_is_survived(tree: ContainerTree, tmp_path: Path) -> None:
    path = cache(tmp_path, "a")
    tree.refresh()
    os.truncate(path, 0)
    (decision,) = Feedback(tree).step()
    assert decision.error == "the file is gone or was cut"


def test_a_file_that_was_zeroed_takes_no_part(tree: ContainerTree, tmp_path: Path) -> None:
    path = cache(tmp_path, "a", recent_kernel=5)
    tree.refresh()
    with path.open("r+b") as file:
        file.write(bytes(4))
    (decision,) = Feedback(tree).step()
    assert (decision.error, decision.task) == ("the magic number is gone", None)
    assert numbers(path)[0] == 5


def test_a_link_put_in_a_files_place_is_not_written_through(
    tree: ContainerTree, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    path = cache(tmp_path, "a", recent_kernel=5)
    tree.refresh()
    path.rename(victim)
    path.symlink_to(victim)
    (decision,) = Feedback(tree).step()
    assert decision.error == "is a symbolic link"
    assert numbers(victim)[0] == 5


@pytest.mark.parametrize(
    ("name", "takes_part"),
    [
        ("v1.2--mixed-v1-then-v1.2", True),  # both have the words at the same places
        ("v1.2--mixed-v1-sem-then-v1.2", False),  # 32 bytes apart: inside the other's last slot
        ("v1--mixed-v0-then-v1", False),
        ("v1-seqlock--mixed-v1-then-v1-seqlock", True),
    ],
)
def test_a_mixed_file_takes_part_if_both_libraries_look_at_one_place(
    name: str, takes_part: bool, tree: ContainerTree, tmp_path: Path
) -> None:
    folder = tmp_path / "containers" / "uid-a_a"
    folder.mkdir()
    path = golden(name).write(folder)
    before = path.read_bytes()
    (decision,) = Feedback(tree).run()
    assert (decision.task is not None) == takes_part
    if not takes_part:
        assert re.search("written by two .* at different places", decision.error)
        assert path.read_bytes() == before


def test_every_cache_of_a_container_is_a_task_of_its_own(
    tree: ContainerTree, tmp_path: Path
) -> None:
    # C3: upstream takes the first by name and leaves the processes of the other without a master.
    first = cache(tmp_path, "a", "a.cache", recent_kernel=5, utilization_switch=0)
    second = cache(tmp_path, "a", "b.cache", recent_kernel=5, utilization_switch=0)
    decisions = Feedback(tree).run()
    assert [d.cache for d in decisions] == ["a.cache", "b.cache"]
    assert numbers(first) == numbers(second) == (4, 1)


def test_what_takes_no_part_says_why(tree: ContainerTree, tmp_path: Path) -> None:
    root = tmp_path / "containers"
    (root / "uid-empty_empty").mkdir()
    CacheBuilder("v1.2").not_initialised().write(root / "uid-new_new" / "x.cache")
    (root / "uid-odd_odd").mkdir()
    (root / "uid-odd_odd" / "x.cache").write_bytes(b"rubbish" * 100)
    (root / "uid-odd_odd" / "y.cache").mkdir()
    feedback = Feedback(tree)
    errors = {(d.container.container, d.cache): d.reason for d in feedback.run()}
    assert errors[("empty", "")] == "takes no part: no cache file yet"
    assert errors[("new", "x.cache")].startswith("takes no part: not_initialised: ")
    assert errors[("odd", "x.cache")].startswith("takes no part: unknown_layout: ")
    assert errors[("odd", "y.cache")] == "takes no part: irregular: not a regular file"
    assert (feedback.writes, feedback.failures) == (0, 0)


def test_a_container_whose_pod_is_gone_is_left_out_and_let_go(
    tree: ContainerTree, tmp_path: Path
) -> None:
    path = cache(tmp_path, "high", priority=0, recent_kernel=2**31 - 1)
    cache(tmp_path, "low", priority=1, recent_kernel=0)
    feedback = Feedback(tree)
    assert by_name(feedback.run())["low"].blocked
    assert mapped(path) == {"r--s", "rw-s"}
    feedback.leave_out([ContainerKey("uid-high", "high")])
    assert mapped(path) == {"r--s"}
    decisions = by_name(feedback.run())
    assert decisions["high"].reason == "takes no part: its pod is gone"
    assert not decisions["low"].blocked
    feedback.leave_out([])
    assert by_name(feedback.run())["low"].blocked


@pytest.fixture
def public_root() -> Iterator[Path]:
    """A folder that anybody may enter."""
    root = Path(tempfile.mkdtemp(dir="/tmp"))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


def test_a_file_that_may_not_be_written_is_counted_and_said_once(
    public_root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # C13: it still counts as running, only its own numbers stay as they are.
    high = cache(public_root, "high", priority=0, recent_kernel=5)
    low = cache(public_root, "low", priority=1, recent_kernel=0)
    high.chmod(0o444)
    low.chmod(0o666)
    user = os.geteuid()
    tree = ContainerTree(public_root)
    feedback = Feedback(tree)
    if user == 0:
        os.seteuid(65534)
    try:
        with caplog.at_level(logging.WARNING):
            feedback.run()
            decisions = by_name(feedback.run())
    finally:
        os.seteuid(user)
        tree.close()
    assert decisions["high"].error == "cannot open: Permission denied"
    assert not decisions["high"].written and decisions["low"].blocked
    assert numbers(high)[0] == 5 and numbers(low)[0] == -1
    assert (feedback.writes, feedback.failures) == (1, 2)
    assert [r.getMessage() for r in caplog.records] == [
        f"{high}: cannot write: cannot open: Permission denied"
    ]


def test_coming_and_going_leaves_nothing_behind(tree: ContainerTree, tmp_path: Path) -> None:
    # C8
    feedback = Feedback(tree)

    def held() -> tuple[int, int]:
        maps = Path("/proc/self/maps").read_text().count(str(tmp_path))
        return len(os.listdir("/proc/self/fd")), maps

    path = cache(tmp_path, "a")
    content = path.read_bytes()
    shutil.rmtree(path.parent)
    feedback.run()
    before = held()
    for _ in range(200):
        path.parent.mkdir()
        path.write_bytes(content)
        (decision,) = feedback.run()
        assert decision.written
        shutil.rmtree(path.parent)
        assert feedback.run() == []
    assert held() == before


def test_no_descriptor_stays_open_for_writing(tree: ContainerTree, tmp_path: Path) -> None:
    path = cache(tmp_path, "a")
    feedback = Feedback(tree)
    feedback.run()
    flags = [
        Path(f"/proc/self/fdinfo/{entry.name}").read_text()
        for entry in Path("/proc/self/fd").iterdir()
        if entry.exists() and entry.resolve() == path
    ]
    assert flags and all(int(re.findall(r"flags:\s+(\d+)", f)[0], 8) & 3 == 0 for f in flags)
    feedback.close()
    assert mapped(path) == {"r--s"}
