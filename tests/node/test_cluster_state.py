"""How far the knowledge of pods can be trusted: whatever happens, in whatever order."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from hami_cache.node.cluster_api import Listing
from hami_cache.node.cluster_decode import Event, EventKind
from hami_cache.node.cluster_state import SETTLE_S, Knowledge
from hami_cache.node.pods import Pod

NODE = "node-a"
QUIET_S = 150.0


def pod(uid: str, node: str = NODE) -> Pod:
    return Pod(uid=uid, name=uid, namespace="ns", node=node)


def listing(*uids: str, unreadable: int = 0) -> Listing:
    return Listing({uid: pod(uid) for uid in uids}, "1", unreadable)


@dataclass(frozen=True)
class Step:
    """Something that happens, and how many seconds after the step before."""

    what: str
    after: float
    uids: frozenset[str] = frozenset()
    unreadable: int = 0
    relist: bool = False

    def apply(self, knowledge: Knowledge, now: float) -> Knowledge:
        match self.what:
            case "list":
                return knowledge.listed(listing(*self.uids, unreadable=self.unreadable), now, now)
            case "open":
                return knowledge.watching(now)
            case "end":
                return knowledge.ended(now)
            case "lose":
                return knowledge.lost(relist=self.relist)
        kinds: dict[str, EventKind] = {"add": "ADDED", "delete": "DELETED"}
        for uid in self.uids:
            knowledge = knowledge.told(Event(kinds[self.what], "2", pod(uid)), now)
        return knowledge


STEPS = st.builds(
    Step,
    st.sampled_from(["list", "open", "add", "delete", "end", "lose"]),
    st.sampled_from([0.0, 1.0, SETTLE_S, QUIET_S + 1]),
    st.frozensets(st.sampled_from("abc")),
    st.sampled_from([0, 0, 0, 1]),
    st.booleans(),
)


@given(st.lists(STEPS, max_size=12), st.booleans(), st.floats(0, 2 * QUIET_S))
def test_fresh_only_without_any_doubt(steps: list[Step], guessed: bool, later: float) -> None:
    knowledge, now = Knowledge(NODE, guessed), 0.0
    listed: Step | None = None
    for step in steps:
        now += step.after
        knowledge = step.apply(knowledge, now)
        listed = step if step.what == "list" else listed
    view = knowledge.view(now + later, QUIET_S)
    assert view.known == (listed is not None)
    assert not (view.fresh and not view.authoritative)
    if view.fresh:
        assert view.pods
        assert not guessed
        assert listed is not None
        assert listed.uids
        assert not listed.unreadable
        assert knowledge.opened is not None
        assert later <= QUIET_S
        assert steps[-1].what not in ("lose", "end")


@given(st.lists(STEPS, max_size=12))
def test_only_a_deletion_or_a_list_with_pods_takes_a_pod_away(steps: list[Step]) -> None:
    knowledge, now = Knowledge(NODE, False), 0.0
    for step in steps:
        now += step.after
        before = set(knowledge.pods)
        knowledge = step.apply(knowledge, now)
        if step.what == "delete":
            assert before - set(knowledge.pods) <= step.uids
        elif step.what == "list" and step.uids:
            assert set(knowledge.pods) == step.uids
        else:
            assert before <= set(knowledge.pods)


def test_a_pod_that_is_said_to_be_elsewhere_is_not_ours() -> None:
    knowledge = Knowledge(NODE, False).listed(listing("a"), 0.0, 0.0).watching(0.0)
    knowledge = knowledge.told(Event("MODIFIED", "2", pod("a", "node-b")), 0.0)
    assert not knowledge.pods


def test_a_list_that_took_long_is_a_gap() -> None:
    knowledge = Knowledge(NODE, False).listed(listing("a"), 0.0, SETTLE_S).watching(SETTLE_S)
    assert not knowledge.view(SETTLE_S, QUIET_S).fresh
    assert knowledge.told(Event("BOOKMARK", "2"), SETTLE_S).view(SETTLE_S, QUIET_S).fresh


def test_the_end_of_a_settled_watch_is_not_a_gap() -> None:
    knowledge = (
        Knowledge(NODE, False).listed(listing("a"), 0.0, 0.0).lost(relist=False).watching(0.0)
    )
    settled = knowledge.ended(SETTLE_S).watching(SETTLE_S)
    assert settled.view(SETTLE_S, QUIET_S).fresh
    hasty = knowledge.ended(1.0).watching(1.0)
    assert not hasty.view(1.0, QUIET_S).fresh


def test_a_pod_that_starts_on_a_node_of_an_empty_list_does_not_dispel_the_doubt() -> None:
    knowledge = Knowledge(NODE, False).listed(listing(), 0.0, 0.0).watching(0.0)
    knowledge = knowledge.told(Event("ADDED", "2", pod("a")), 0.0)
    assert set(knowledge.view(0.0, QUIET_S).pods) == {"a"}
    assert not knowledge.view(0.0, QUIET_S).fresh
    assert not knowledge.ended(0.0).version, "and the next thing to do is to list"
