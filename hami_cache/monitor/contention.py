"""Who may launch kernels: upstream's rule of priorities, as a pure function over one moment.

Equal to what HAMi's vGPUmonitor computes every five seconds (`Observe` in
cmd/vGPUmonitor/feedback.go, release 2.10). A lower number is the more urgent priority. Numbers come
from tenants: whatever they are, the work and the memory here depend on the number of tasks alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hami_cache.errors import one_line

BLOCKED = -1
"""What `recent_kernel` of a blocked task is set to: its launches wait while it is negative."""

_UUID_SHOWN = 48


class Task(NamedTuple):
    """One cache before a pass.

    Attributes:
        name: whose it is, for people.
        priority: 0 is the most urgent; a negative one is counted nowhere.
        recent_kernel: launches set it to 2, passes count it down, negative blocks.
        switch: utilization_switch; 1 makes the core limit hold.
        cards: the uuid fields whose first byte is not NUL, in order, all their bytes.
    """

    name: str
    priority: int
    recent_kernel: int
    switch: int
    cards: tuple[bytes, ...]


@dataclass(slots=True)
class Runner:
    """Who runs on a card, as far as it matters: the most urgent priority.

    Attributes:
        card: the uuid field.
        priority: the most urgent one that runs there.
        name: the first task of that priority.
        number: how often that priority runs there. A task that names a card twice counts twice.
    """

    card: bytes
    priority: int
    name: str
    number: int = 1


class Outcome(NamedTuple):
    """What a pass makes of one task.

    Attributes:
        recent_kernel, switch: the values to be stored.
        rival: a more urgent task that runs on one of its cards: the reason for a block. None
            without one.
        crowd: several tasks of its own priority, the most urgent one, that run on one of its
            cards. None without them, or with a rival.
    """

    recent_kernel: int
    switch: int
    rival: Runner | None
    crowd: Runner | None


def decide(tasks: Sequence[Task]) -> list[Outcome]:
    """One pass over all tasks of a node.

    First everybody's recent launches are counted down; who has some left is running. Then whoever
    shares a card with a more urgent running task is blocked, everybody else is let go. The switch
    is on where a more urgent task runs, or more than one of the same priority.

    Args:
        tasks: their order decides only which of several equal rivals is named.
    """
    left = [t.recent_kernel - 1 if t.recent_kernel > 0 else t.recent_kernel for t in tasks]
    running: dict[bytes, Runner] = {}
    for task, recent in zip(tasks, left, strict=True):
        if recent > 0 and task.priority >= 0:
            _run(task, running)
    return [_outcome(task, recent, running) for task, recent in zip(tasks, left, strict=True)]


def _run(task: Task, running: dict[bytes, Runner]) -> None:
    """Count a running task on its cards.

    Only the most urgent priority of a card matters: all others have a rival there.
    """
    for card in task.cards:
        known = running.get(card)
        if known is None or task.priority < known.priority:
            running[card] = Runner(card, task.priority, task.name)
        elif task.priority == known.priority:
            known.number += 1


def _outcome(task: Task, recent: int, running: dict[bytes, Runner]) -> Outcome:
    crowd: Runner | None = None
    for card in task.cards:
        runner = running.get(card)
        if runner is None:
            continue
        if runner.priority < task.priority:
            return Outcome(BLOCKED if recent >= 0 else recent, 1, runner, None)
        if runner.priority == task.priority and runner.number > 1 and crowd is None:
            crowd = runner
    return Outcome(max(recent, 0), int(crowd is not None), None, crowd)


def explain(task: Task, outcome: Outcome) -> str:
    """Why a task was treated so, in one line."""
    parts = [_launches(task, outcome)]
    if task.priority < 0:
        parts.append(f"priority {task.priority} is out of range: counted nowhere")
    elif outcome.crowd is not None:
        card = card_text(outcome.crowd.card)
        parts.append(
            f"switch 1: priority {task.priority} runs {outcome.crowd.number} times on {card}"
        )
    return "; ".join(parts)


def _launches(task: Task, outcome: Outcome) -> str:
    if outcome.rival is not None:
        rival = outcome.rival
        return f"blocked: {rival.name} of priority {rival.priority} runs on {card_text(rival.card)}"
    if task.recent_kernel < 0:
        return "let go: nothing more urgent runs on its cards"
    if outcome.recent_kernel > 0:
        return "running"
    return "idle"


def card_text(card: bytes) -> str:
    """A uuid field for people: its text up to the first NUL, nothing in it can forge a line."""
    text = one_line(card.partition(b"\0")[0].decode("utf-8", "backslashreplace"))
    return text if len(text) <= _UUID_SHOWN else f"{text[:_UUID_SHOWN]}..."
