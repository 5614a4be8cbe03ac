"""What the caches below a hook path measured, for the policy ``measured``."""

from __future__ import annotations

from pathlib import Path

from hami_cache.absent import Absent
from hami_cache.allocwatch.claims import Holder
from hami_cache.allocwatch.reconcile import Measured, MeasuredMemory
from hami_cache.errors import HamiCacheError
from hami_cache.node.containers import ContainerTree
from hami_cache.node.hami import hami_devices
from hami_cache.node.pods import Pod, PodSource
from hami_cache.node.usage import ContainerUsage, UsageReader


def measured_memory(hook_path: Path, pods: PodSource) -> MeasuredMemory:
    """The memory of every container of HAMi, under the names that the kubelet uses.

    Args:
        hook_path: HAMi's HOOK_PATH.
        pods: turns pod UIDs, which name the directories, into namespaces and names.

    Returns:
        A function to call once per poll. It leaves out containers without a cache and pods that
        the source does not know or that have ended. It raises `HamiCacheError` while there is no
        pod list yet: without names every container would look as if it had no cache.
    """
    reader = UsageReader(ContainerTree(hook_path))

    def measure() -> dict[Holder, Measured | Absent]:
        view = pods.view()
        if not view.known:
            raise HamiCacheError("there is no pod list yet", hint="the next poll asks again")
        result: dict[Holder, Measured | Absent] = {}
        for usage in reader.read(complete=True):
            pod = view.pods.get(usage.key.pod_uid)
            if pod is None or pod.ended or usage.state == "empty":
                continue
            holder = Holder(pod.namespace, pod.name, usage.key.container)
            # A pod that was made again under its name has left a directory behind: which is it?
            twice = holder in result
            result[holder] = Absent("source_disagreement") if twice else _measured(usage, pod)
        return result

    return measure


def _measured(usage: ContainerUsage, pod: Pod) -> Measured | Absent:
    if usage.state != "ready":
        return Absent(usage.state)
    if "uuid_unreadable" in usage.anomalies:
        return Absent("uuid_unreadable")  # some of its memory lies on a card without a name
    return Measured({device.uuid: device.total for device in usage.devices}, _granted(pod))


def _granted(pod: Pod) -> frozenset[str]:
    try:
        return frozenset(share.uuid for shares in hami_devices(pod) for share in shares)
    except HamiCacheError:
        return frozenset()
