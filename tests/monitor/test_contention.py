"""The rule of priorities, against upstream's own data structure and against hostile numbers."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from hami_cache.monitor.contention import BLOCKED, Task, card_text, decide, explain

INT32 = st.integers(-(2**31), 2**31 - 1)
CARDS = tuple(f"GPU-{index}".encode().ljust(96, b"\0") for index in range(4))

TASKS = st.lists(
    st.builds(
        Task,
        name=st.just("uid_main"),
        priority=st.integers(-2, 5),
        recent_kernel=st.integers(-3, 3),
        switch=st.integers(0, 1),
        cards=st.lists(st.sampled_from(CARDS), max_size=5).map(tuple),
    ),
    max_size=8,
)


def naive(tasks: Sequence[Task]) -> list[tuple[int, int]]:
    """The same with a table of every priority of every card, as upstream keeps it."""
    recent = [t.recent_kernel - (t.recent_kernel > 0) for t in tasks]
    table = {card: [0] * 10 for card in CARDS}
    for task, left in zip(tasks, recent, strict=True):
        for card in task.cards if left > 0 and task.priority >= 0 else ():
            table[card][task.priority] += 1
    answer = []
    for task, left in zip(tasks, recent, strict=True):
        lower = any(any(table[card][: max(task.priority, 0)]) for card in task.cards)
        own = task.priority >= 0 and any(table[card][task.priority] > 1 for card in task.cards)
        kernel = (BLOCKED if left >= 0 else left) if lower else max(left, 0)
        answer.append((kernel, int(lower or own)))
    return answer


@given(TASKS)
def test_the_rule_is_upstreams_table_without_its_size(tasks: list[Task]) -> None:
    outcomes = decide(tasks)
    assert [(o.recent_kernel, o.switch) for o in outcomes] == naive(tasks)
    for task, outcome in zip(tasks, outcomes, strict=True):
        assert explain(task, outcome)
        if outcome.rival is not None:
            assert 0 <= outcome.rival.priority < task.priority
            assert outcome.rival.card in task.cards


@given(st.lists(st.builds(Task, st.just(""), INT32, INT32, INT32, st.just(CARDS)), max_size=8))
def test_any_number_gives_two_numbers_that_fit(tasks: list[Task]) -> None:
    for outcome in decide(tasks):
        assert -(2**31) <= outcome.recent_kernel < 2**31
        assert outcome.switch in (0, 1)


def test_absurd_priorities_cost_nothing() -> None:
    # G1: upstream grows a list to priority + 1 entries.
    tasks = [Task(f"p{p}", p, 5, 0, CARDS) for p in (2, 7, 2**31 - 1, -1)]
    tracemalloc.start()
    try:
        outcomes = decide(tasks)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000
    assert [(o.recent_kernel, o.switch) for o in outcomes] == [(4, 0), (-1, 1), (-1, 1), (4, 0)]
    assert explain(tasks[3], outcomes[3]) == "running; priority -1 is out of range: counted nowhere"


def test_a_contended_card_blocks_whatever_its_place() -> None:
    # G2: the urgent one is quiet on the first card and runs on the second.
    quiet, busy, low = (
        Task("quiet_main", 0, 0, 1, CARDS[:1]),
        Task("busy_main", 0, 2, 0, CARDS[1:2]),
        Task("low_main", 1, 0, 0, CARDS[:2]),
    )
    first, second, third = decide([quiet, busy, low])
    assert (first.recent_kernel, second.recent_kernel, third.recent_kernel) == (0, 1, -1)
    assert explain(quiet, first) == "idle"
    assert explain(busy, second) == "running"
    assert explain(low, third) == "blocked: busy_main of priority 0 runs on GPU-1"

    blocked = low._replace(recent_kernel=-1)
    _, free = decide([busy._replace(recent_kernel=1), blocked])
    assert (free.recent_kernel, free.switch) == (0, 0)
    assert explain(blocked, free) == "let go: nothing more urgent runs on its cards"


def test_contention_holds_until_it_has_decayed() -> None:
    # G3: priority 0 launches once, priority 1 is held back pass after pass until that has run down.
    high, low = Task("high", 0, 5, 0, CARDS[:1]), Task("low", 1, 0, 0, CARDS[:1])
    seen = []
    for _ in range(6):
        outcomes = decide([high, low])
        high, low = (
            task._replace(recent_kernel=o.recent_kernel, switch=o.switch)
            for task, o in zip((high, low), outcomes, strict=True)
        )
        seen.append((high.recent_kernel, low.recent_kernel, low.switch))
    assert seen == [(4, -1, 1), (3, -1, 1), (2, -1, 1), (1, -1, 1), (0, 0, 0), (0, 0, 0)]


def test_a_crowd_is_named() -> None:
    tasks = [Task(name, 1, 2, 0, CARDS[:1]) for name in ("a", "b")]
    outcome = decide(tasks)[0]
    assert explain(tasks[0], outcome) == "running; switch 1: priority 1 runs 2 times on GPU-0"


def test_a_uuid_cannot_forge_a_line() -> None:
    assert card_text(b"GPU-1\0rest") == "GPU-1"
    assert card_text(b"a\nb\xff\x1b[2J") == "a\\nb\\xff\\x1b[2J"
    assert len(card_text(b"x" * 96)) == 51
