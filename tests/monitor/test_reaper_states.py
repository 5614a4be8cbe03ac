"""Whatever happens between us and the cluster, no directory of a pod that exists is removed."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hami_cache.monitor.reaper import Reaper
from hami_cache.node.cluster_api import Listing
from hami_cache.node.cluster_decode import Event
from hami_cache.node.cluster_state import Knowledge
from hami_cache.node.containers import ContainerTree
from hami_cache.node.pods import Pod, PodView

RESYNC = 300.0
QUIET = 150.0
BEGIN = time.time() - 1e6
"""The model's clock starts long ago: real time stamps of directories are set to it."""

NODE = "node-a"


class Disk(RuleBasedStateMachine):
    """A node whose pods come and go, each with a directory that ages in the model's time."""

    def __init__(self) -> None:
        super().__init__()
        self.hook = Path(tempfile.mkdtemp())
        self.root = self.hook / "containers"
        self.root.mkdir()
        self.now = 0.0
        self.pods: dict[str, Pod] = {}
        self.number = 0
        self.reaper = Reaper(ContainerTree(self.hook), self, RESYNC, clock=lambda: BEGIN + self.now)

    def view(self) -> PodView:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def teardown(self) -> None:
        shutil.rmtree(self.hook)

    def directory(self, uid: str) -> Path:
        return self.root / f"{uid}_main"

    def start(self) -> Pod:
        self.number += 1
        uid = f"uid{self.number}"
        self.pods[uid] = Pod(uid, uid, "default", node=NODE)
        self.directory(uid).mkdir()
        os.utime(self.directory(uid), (BEGIN + self.now, BEGIN + self.now))
        return self.pods[uid]

    @invariant()
    def every_pod_keeps_its_directory(self) -> None:
        self.reaper.run()
        assert all(self.directory(uid).is_dir() for uid in self.pods)


class Cluster(Disk):
    """An honest API server behind a bad line, seen through what we make of its answers."""

    def __init__(self) -> None:
        super().__init__()
        self.knowledge = Knowledge(NODE, False)
        self.events: list[Event] = []
        self.start()

    def view(self) -> PodView:
        return self.knowledge.view(self.now, QUIET)

    @property
    def open(self) -> bool:
        return self.knowledge.opened is not None

    @rule()
    def a_pod_starts(self) -> None:
        self.events.append(Event("ADDED", "1", self.start()))

    @precondition(lambda self: len(self.pods) > 1)
    @rule(data=st.data())
    def a_pod_goes(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        self.events.append(Event("DELETED", "1", self.pods.pop(uid)))

    @precondition(lambda self: not self.open)
    @rule(took=st.sampled_from([0.1, 0.1, 40.0]))
    def a_list_arrives_and_the_watch_opens(self, took: float) -> None:
        asked, self.now = self.now, self.now + took
        self.listed(Listing(dict(self.pods), "1", 0), asked)
        self.the_watch_opens()

    @precondition(lambda self: not self.open)
    @rule(pods=st.booleans())
    def half_a_list_arrives(self, pods: bool) -> None:
        self.listed(Listing(dict(self.pods) if pods else {}, "1", int(pods)), self.now)

    def listed(self, listing: Listing, asked: float) -> None:
        self.events.clear()
        self.knowledge = self.knowledge.listed(listing, asked, self.now)

    @precondition(lambda self: not self.open and self.knowledge.version)
    @rule()
    def the_watch_opens(self) -> None:
        self.knowledge = self.knowledge.watching(self.now)

    @precondition(lambda self: self.open and not self.events)
    @rule()
    def a_bookmark_arrives(self) -> None:
        self.knowledge = self.knowledge.told(Event("BOOKMARK", "1"), self.now)

    @precondition(lambda self: self.open)
    @rule(relist=st.booleans())
    def the_line_breaks(self, relist: bool) -> None:
        self.knowledge = self.knowledge.lost(relist=relist)

    @precondition(lambda self: self.open and not self.events)
    @rule()
    def the_watch_ends(self) -> None:
        self.knowledge = self.knowledge.ended(self.now)

    @precondition(lambda self: self.knowledge.known)
    @rule()
    def we_start_again(self) -> None:
        self.knowledge = Knowledge(NODE, False)

    @rule(seconds=st.sampled_from([1.0, 31.0, 100.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        """An open watch says at once what happened; a closed one says nothing."""
        while self.open and self.events:
            self.knowledge = self.knowledge.told(self.events.pop(0), self.now)
        self.now += seconds

    def teardown(self) -> None:
        """In the end, with a good line, what has no pod goes: the test is not an empty one."""
        self.now += 2 * RESYNC
        self.we_start_again()
        self.a_list_arrives_and_the_watch_opens(0.1)
        self.reaper.run()
        assert {path.name for path in self.root.iterdir()} == {f"{uid}_main" for uid in self.pods}
        super().teardown()


class Liar(Disk):
    """A source that claims to be current whatever it says, while all pods have their cache open."""

    @initialize()
    def begin(self) -> None:
        self.answer: set[str] = set()
        self.held: dict[str, int] = {}

    def view(self) -> PodView:
        pods = {uid: Pod(uid, uid, "default") for uid in self.answer}
        return PodView(pods=pods, known=True, fresh=True)

    @rule()
    def a_pod_starts(self) -> None:
        uid = self.start().uid
        path = self.directory(uid) / "x.cache"
        path.write_bytes(bytes(16))
        self.held[uid] = os.open(path, os.O_RDWR)
        for place in (path, path.parent):
            os.utime(place, (BEGIN + self.now, BEGIN + self.now))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def a_pod_goes(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        del self.pods[uid]
        os.close(self.held.pop(uid))

    @rule(data=st.data())
    def it_says_anything(self, data: st.DataObject) -> None:
        uids = [f"uid{number + 1}" for number in range(self.number)]
        self.answer = data.draw(st.sets(st.sampled_from([*uids, "other"])))

    @rule(seconds=st.sampled_from([1.0, 400.0, 4000.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    def teardown(self) -> None:
        for fd in getattr(self, "held", {}).values():
            os.close(fd)
        super().teardown()


BRIEF = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestCluster = Cluster.TestCase
TestCluster.settings = BRIEF
TestLiar = Liar.TestCase
TestLiar.settings = BRIEF
