"""The feedback loop on a full node: 100 containers with 8 cards each, two priorities.

The target is 1 ms a pass, disk apart. What is measured is compared first with upstream's own rule,
written with a table of priorities for each card.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from hami_cache.monitor.contention import Task
from hami_cache.monitor.feedback import Feedback
from hami_cache.node.containers import ContainerTree
from hami_cache.testing import CacheBuilder

CONTAINERS = 100
CARDS = 8
ALL_CARDS = 16
FOREVER = 2**31 - 1
"""A recent_kernel that all passes of a benchmark do not run down."""


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[ContainerTree]:
    """Some containers launch all the time, some are blocked, all share cards."""
    for number in range(CONTAINERS):
        builder = CacheBuilder(
            "v1.2", priority=number % 2, recent_kernel=FOREVER * (number % 3 > 0)
        )
        for index in range(CARDS):
            builder.device(f"GPU-{(number + index) % ALL_CARDS:08d}-0000-4000-8000-000000000000")
        builder.process(7).write(tmp_path / "containers" / f"uid-{number}_main" / "x.cache")
    tree = ContainerTree(tmp_path)
    tree.refresh(complete=True)
    yield tree
    tree.close()


def plain(tasks: Sequence[Task]) -> list[tuple[int, int]]:
    """recent_kernel and switch of each task after a pass."""
    left = [t.recent_kernel - (t.recent_kernel > 0) for t in tasks]
    running = Counter(
        (card, task.priority)
        for task, recent in zip(tasks, left, strict=True)
        if recent > 0
        for card in task.cards
    )
    answer = []
    for task, recent in zip(tasks, left, strict=True):
        lower = any(running[card, p] for card in task.cards for p in range(task.priority))
        crowd = any(running[card, task.priority] > 1 for card in task.cards)
        kernel = (-1 if recent >= 0 else recent) if lower else max(recent, 0)
        answer.append((kernel, int(lower or crowd)))
    return answer


@pytest.mark.parametrize("read_only", [False, True], ids=["writing", "read-only"])
def test_a_pass_over_a_full_node(
    read_only: bool, tree: ContainerTree, benchmark: BenchmarkFixture
) -> None:
    feedback = Feedback(tree, read_only=read_only)
    first = feedback.step()
    tasks = [decision.task for decision in first if decision.task is not None]
    assert len(tasks) == CONTAINERS
    assert [(d.recent_kernel_after, d.switch_after) for d in first] == plain(tasks)
    benchmark(feedback.step)
    assert feedback.failures == 0 and (feedback.writes > 0) != read_only
