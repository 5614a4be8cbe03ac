"""What is known of the node's pods, as a value: each thing that happens makes the next one.

The question it exists for: may a pod that is not here be taken as gone? Only then may a directory
be deleted, so every doubt says no.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hami_cache.node.cluster_api import Listing
from hami_cache.node.cluster_decode import Event
from hami_cache.node.pods import Pod, PodView

SETTLE_S = 30.0
"""After a gap, a watch without a bookmark counts as caught up this many seconds after it opened:
the server sends what was missed at once. A list that took as long is a gap, too."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The pods of one node, and how far they can be trusted. Times are monotonic seconds.

    Attributes:
        node: the node's name.
        guessed: nobody gave the name: a missing pod may simply be one of a node of another name.
        pods: by UID.
        known: there has been a complete list.
        doubted: the last list was empty or had items that could not be read. The monitor is itself
            a pod of its node, so no pod at all means a wrong name or a broken answer.
        version: where a watch goes on from; "" when only a new list helps.
        opened: when the watch that is open now was opened; None while there is none.
        heard: when the server last said something.
        behind: there was a gap that the open watch may still be filling.
    """

    node: str
    guessed: bool
    pods: Mapping[str, Pod] = field(default_factory=dict)
    known: bool = False
    doubted: bool = False
    version: str = ""
    opened: float | None = None
    heard: float = 0.0
    behind: bool = False

    def listed(self, listing: Listing, asked: float, now: float) -> Knowledge:
        """After a complete list that was asked for at `asked`. An empty one takes no names away."""
        return replace(
            self,
            pods=listing.pods or self.pods,
            known=True,
            doubted=not listing.pods or listing.unreadable > 0,
            version=listing.version,
            heard=now,
            behind=now - asked >= SETTLE_S,
        )

    def watching(self, now: float) -> Knowledge:
        """After the server took a watch."""
        return replace(self, opened=now, heard=now)

    def told(self, event: Event, now: float) -> Knowledge:
        """After an event of the open watch."""
        behind = self.behind and event.kind != "BOOKMARK"
        pods = self.pods if event.pod is None else self._changed(event.kind, event.pod)
        return replace(self, pods=pods, version=event.version, heard=now, behind=behind)

    def ended(self, now: float) -> Knowledge:
        """After the server ended the watch as agreed: nothing is missed, a doubt is looked into."""
        behind = self.behind and not self._settled(now)
        version = "" if self.doubted else self.version
        return replace(self, opened=None, behind=behind, version=version)

    def lost(self, *, relist: bool) -> Knowledge:
        """After a failure, or a pause: from here on something is missed."""
        return replace(self, opened=None, behind=True, version="" if relist else self.version)

    def up(self, now: float, quiet: float) -> bool:
        """A watch is open and was heard within `quiet` seconds."""
        return self.opened is not None and now - self.heard <= quiet

    def view(self, now: float, quiet: float) -> PodView:
        """The view for everybody else. A guess or a doubt names pods and never says one is gone."""
        certain = not self.guessed and not self.doubted
        caught_up = self.up(now, quiet) and (not self.behind or self._settled(now))
        return PodView(
            pods=self.pods,
            known=self.known,
            fresh=self.known and certain and caught_up and bool(self.pods),
            authoritative=certain,
        )

    def _settled(self, now: float) -> bool:
        return self.opened is not None and now - self.opened >= SETTLE_S

    def _changed(self, kind: str, pod: Pod) -> Mapping[str, Pod]:
        others = {uid: other for uid, other in self.pods.items() if uid != pod.uid}
        if kind == "DELETED" or pod.node != self.node:
            return others
        return {**others, pod.uid: pod}
