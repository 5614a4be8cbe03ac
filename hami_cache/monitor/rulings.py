"""Which directories stay, which go, and why: garbage collection without its removals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from hami_cache.errors import SourceError
from hami_cache.monitor.orphans import Orphan, alive, distrust, examine, suspicious, young
from hami_cache.node.containers import Container, ContainerKey, ContainerTree
from hami_cache.node.pods import PodView

PATIENCE_S = 600.0
"""How long a suspicious state must last before it is believed."""

Action = Literal["kept", "refused", "removed", "would_remove", "unfinished", "failed"]
"""``refused``: its pod is not known, but that proves nothing. ``unfinished``: too much for one run.
``would_remove``: as in a dry run."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What became of one entry of the containers directory, and why."""

    name: str
    action: Action
    reason: str


class Judge:
    """Decides about the directories of a tree, and remembers how long a state has looked wrong.

    Args:
        tree: the container directories.
        resync: seconds for which the directory of an unknown pod survives its last change.
        orphaned: told, each time, the containers that are old and have no pod, so that we are not
            the ones who keep their files open.

    Attributes:
        begun: name and (device, inode) of the directories whose removal has begun: that they have
            changed is our own doing.
    """

    def __init__(
        self,
        tree: ContainerTree,
        resync: float,
        orphaned: Callable[[Iterable[ContainerKey]], object],
    ) -> None:
        self._tree = tree
        self._resync = resync
        self._orphaned = orphaned
        self._suspicious_since: float | None = None
        self.begun: set[tuple[str, tuple[int, ...]]] = set()

    def rule(self, view: PodView, now: float) -> tuple[list[Ruling], list[Orphan]]:
        """What stays, with the reason, and what has to go. The caller holds the tree's lock."""
        rulings = [
            Ruling(name, "kept", f"no container's directory: {problem}")
            for name, problem in self._tree.skipped.items()
        ]
        doubt = distrust(view)
        old: list[Container] = []
        for container in self._tree.containers.values():
            name = container.path.name
            if container.key.pod_uid in view.pods:
                rulings.append(Ruling(name, "kept", "its pod is known"))
            elif doubt:
                rulings.append(Ruling(name, "refused", doubt))
            elif reason := container.problem or self._early(container, now):
                rulings.append(Ruling(name, "kept", reason))
            else:
                old.append(container)
        self.begun &= {(c.path.name, c.stamp[:2]) for c in old}
        self._orphaned([container.key for container in old])
        due: list[Orphan] = []
        for container in old:
            try:
                orphan = examine(container)
                reason = alive(orphan, now, self._resync)
            except (OSError, SourceError) as error:
                reason = f"cannot look into it: {error_text(error)}"
            if reason:
                rulings.append(Ruling(container.path.name, "kept", reason))
            else:
                due.append(orphan)
        if doubt := self._second_thoughts(due, now):
            rulings += [Ruling(orphan.name, "refused", doubt) for orphan in due]
            due = []
        return rulings, due

    def _early(self, container: Container, now: float) -> str:
        """Why it is too early; what we have begun to remove we have changed ourselves."""
        if (container.path.name, container.stamp[:2]) in self.begun:
            return ""
        return young(container, now, self._resync)

    def _second_thoughts(self, due: list[Orphan], now: float) -> str:
        """Why not to believe that all these have to go; "" to believe it."""
        if not suspicious(due, len(self._tree.containers)):
            self._suspicious_since = None
            return ""
        if self._suspicious_since is None:
            self._suspicious_since = now
        most = "most of the directories would go at once"
        if any(orphan.untold for orphan in due):
            return f"{most}, and whether their processes live cannot be told"
        if now - self._suspicious_since < PATIENCE_S:
            return f"{most}: waiting whether that stays so for {PATIENCE_S:.0f} s"
        return ""


def error_text(error: OSError | SourceError) -> str:
    """What a failed look or removal says about itself."""
    return error.message if isinstance(error, SourceError) else str(error.strerror)
