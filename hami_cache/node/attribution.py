"""Whose process is it: a pid of the host -> the pod and the container it runs in.

A wrong attribution is worse than none, so everything that is not plainly one known container of one
known pod is a refusal with a reason. The evidence is the process' cgroup path, read twice around
its state and its name; the kubelet's and the runtimes' ways of spelling such a path are in
`parse_cgroup`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hami_cache.node.cgroups import GO_SPACE, CgroupIdentity, parse_cgroup
from hami_cache.node.hami import HAMI_ANNOTATION
from hami_cache.node.pods import Pod

Outcome = Literal["attributed", "excluded", "unattributed"]
ProcRead = Callable[[int, str], str]
"""Reads ``<root>/<pid>/<name>``; raises OSError."""

MAX_PROC_BYTES = 64 * 1024
"""More than any of the three files holds; a longer one is unreadable."""

MPS_SERVER = "nvidia-cuda-mps"
"""The MPS server's name, cut to 15 characters by the kernel: it holds a card for others."""

UNREADABLE_REASONS = frozenset(
    {"exited", "permission", "unreadable", "zombie", "unstable", "pid_namespace_invisible"}
)
"""Refusals that come from /proc not answering; all others come from what it answered."""

PART_OF_LABEL = "app.kubernetes.io/part-of"
INSTANCE_KIND = "Instance"
INSTANCE_GROUP = "worker.gpustack.ai"


@dataclass(frozen=True, slots=True)
class Attribution:
    """What became of one pid.

    Attributes:
        outcome: ``attributed`` to a container; ``excluded``, of a pod that backs no instance and so
            nobody's slice; or ``unattributed``.
        pod_uid: set when attributed.
        container_id: the runtime's id, set when attributed.
        reason: one word, set when unattributed.
    """

    outcome: Outcome
    pod_uid: str = ""
    container_id: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class IndexedPod:
    """A pod as attribution sees it.

    Attributes:
        instance: its containers' usage is accounted for; see `backs_instance`.
        containers: the runtime ids of its containers.
    """

    instance: bool
    containers: frozenset[str]


@dataclass(frozen=True, slots=True)
class PodIndex:
    """The node's pods by UID, and the names behind the runtime ids."""

    pods: Mapping[str, IndexedPod] = field(default_factory=dict)
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> PodIndex:
        """Index pods; a later pod of the same UID replaces an earlier one, names add up.

        Every pod counts, not only the instances: a row of a known other pod can be left out safely,
        one of an unknown pod cannot.
        """
        index: dict[str, IndexedPod] = {}
        names: dict[str, dict[str, str]] = {}
        for pod in pods:
            if not pod.uid:
                continue
            ids = {c.container_id: c.name for c in pod.containers if c.container_id}
            if ids:
                names.setdefault(pod.uid, {}).update(ids)
            index[pod.uid] = IndexedPod(backs_instance(pod), frozenset(ids))
        return cls(index, names)

    def name(self, attribution: Attribution) -> str:
        """The name of the attributed container, "" where no status gave one."""
        return self.names.get(attribution.pod_uid, {}).get(attribution.container_id, "")


def backs_instance(pod: Pod) -> bool:
    """Whether the pod's usage is somebody's slice.

    A GPUStack pod is one if its controller is an `Instance` whose UID its part-of label repeats; a
    HAMi pod is one by HAMi's allocation annotation.
    """
    if pod.annotations.get(HAMI_ANNOTATION):
        return True
    owner = next((owner for owner in pod.owners if owner.controller), None)
    if owner is None or owner.kind != INSTANCE_KIND:
        return False
    group, slash, version = owner.api_version.partition("/")
    return (
        bool(slash)
        and "/" not in version
        and group == INSTANCE_GROUP
        and pod.labels.get(PART_OF_LABEL, "") == owner.uid
    )


def proc_reader(root: Path = Path("/proc")) -> ProcRead:
    """Read process files below a /proc, wherever the host's is mounted.

    The returned function raises OSError, also for a file longer than `MAX_PROC_BYTES`.
    """

    def read(pid: int, name: str) -> str:
        descriptor = os.open(f"{root}/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = b""
            while len(content) <= MAX_PROC_BYTES:
                chunk = os.read(descriptor, MAX_PROC_BYTES + 1 - len(content))
                if not chunk:
                    return content.decode("utf-8", "surrogateescape")
                content += chunk
        finally:
            os.close(descriptor)
        raise OSError(f"longer than {MAX_PROC_BYTES} bytes")

    return read


class Attributor:
    """Attributes the pids of one pass.

    However many cards a pid appears on, its files are read once: the cgroup twice, the state and
    the name once.

    Args:
        index: the node's pods.
        read: reads a process' files.
    """

    def __init__(self, index: PodIndex, read: ProcRead) -> None:
        self._index = index
        self._read = read
        self._known: dict[int, tuple[Attribution, bool]] = {}

    def resolve(self, pids: Iterable[int]) -> dict[int, Attribution]:
        """Attribute the pids of one card.

        If not one of them exists in this /proc, the driver speaks of another pid namespace: then
        every refusal is ``pid_namespace_invisible`` rather than ``exited``.
        """
        results = {pid: self._attribute(pid) for pid in dict.fromkeys(pids)}
        if all(not seen and result.reason == "exited" for result, seen in results.values()):
            return {
                pid: Attribution("unattributed", reason="pid_namespace_invisible")
                for pid in results
            }
        return {pid: result for pid, (result, _) in results.items()}

    def _attribute(self, pid: int) -> tuple[Attribution, bool]:
        if pid not in self._known:
            self._known[pid] = self._look_up(pid)
        return self._known[pid]

    def _look_up(self, pid: int) -> tuple[Attribution, bool]:
        """The attribution, and whether the process was seen at all."""
        try:
            identity = parse_cgroup(self._read(pid, "cgroup"))
        except OSError as error:
            return _refusal(_reason_of(error)), False
        reason = identity.reason or self._condition(pid) or self._moved(pid, identity)
        return (_refusal(reason) if reason else self._owner(identity)), True

    def _condition(self, pid: int) -> str:
        """Why the process cannot be charged although its cgroup is plain, "" if it can."""
        try:
            state = _state(self._read(pid, "stat"))
            if state in ("", "Z"):
                return "zombie" if state else "unreadable"
            name = self._read(pid, "comm").strip(GO_SPACE)
        except OSError as error:
            return _reason_of(error)
        return "mediated" if name == MPS_SERVER else ""

    def _moved(self, pid: int, identity: CgroupIdentity) -> str:
        """The second look: another identity means a re-used pid or a process on the move."""
        try:
            again = parse_cgroup(self._read(pid, "cgroup"))
        except OSError:
            return ""
        return "" if again.reason or again == identity else "unstable"

    def _owner(self, identity: CgroupIdentity) -> Attribution:
        pod = self._index.pods.get(identity.pod_uid)
        if pod is None:
            return _refusal("unknown_pod")
        if not pod.instance:
            return Attribution("excluded")
        if identity.container_id not in pod.containers:
            return _refusal("unknown_container")
        return Attribution("attributed", identity.pod_uid, identity.container_id)


def _refusal(reason: str) -> Attribution:
    return Attribution("unattributed", reason=reason)


def _reason_of(error: OSError) -> str:
    """ESRCH (the process died between open and read) is ``unreadable``, as it is upstream."""
    if isinstance(error, FileNotFoundError):
        return "exited"
    return "permission" if isinstance(error, PermissionError) else "unreadable"


def _state(stat: str) -> str:
    """The letter after the name (which may hold spaces and parentheses), "" if none is there."""
    _, parenthesis, rest = stat.rpartition(")")
    return rest.lstrip(" ")[:1] if parenthesis else ""
