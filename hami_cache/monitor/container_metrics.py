"""The metrics of containers, with upstream's names, labels and units, and ours beside them.

The contract is docs/metrics.md. A figure that is absent has no sample; its anomaly says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import Metric

from hami_cache.absent import Absent
from hami_cache.errors import HamiCacheError
from hami_cache.model import Figure
from hami_cache.monitor.exposition import Family
from hami_cache.monitor.labels import ZONE, LabelCache, Named
from hami_cache.node.devicefigures import DeviceUsage
from hami_cache.node.hami import mig_allocations

DEVICE = ("zone", "namespace", "pod", "container", "vdevice_index", "device_uuid")
LEGACY = ("zone", "podnamespace", "podname", "ctrname", "vdeviceid", "deviceuuid")
MIG = (
    "zone", "namespace", "pod", "container", "vdevice_index", "device_uuid", "mig_uuid", "profile",
    "gpu_instance_id", "compute_instance_id",
)  # fmt: skip

FIGURES: Sequence[tuple[str, str, Callable[[DeviceUsage], Figure]]] = (
    (
        "hami_vgpu_memory_used_bytes",
        "Device memory that the container's processes use.",
        lambda d: d.total,
    ),
    (
        "hami_vgpu_memory_limit_bytes",
        "Device memory that the container may use; 0 where no limit is set.",
        lambda d: d.limit,
    ),
    (
        "hami_container_device_memory_bytes",
        "Device memory that the container's processes use.",
        lambda d: d.total,
    ),
    (
        "hami_container_device_utilization_ratio",
        "SM utilization of the container's processes in percent, as a sum: it can exceed 100.",
        lambda d: d.sm_util,
    ),
    (
        "hami_vgpu_memory_context_bytes",
        "Device memory taken by CUDA contexts.",
        lambda d: d.context,
    ),
    ("hami_vgpu_memory_module_bytes", "Device memory taken by CUDA modules.", lambda d: d.module),
    ("hami_vgpu_memory_buffer_bytes", "Device memory taken by data buffers.", lambda d: d.data),
)


def container_families(named: Sequence[Named], labels: LabelCache, now: float) -> Iterable[Metric]:
    """The per-container families of the contract.

    Args:
        named: the containers to export.
        labels: keeps label sets between scrapes.
        now: seconds since the epoch.
    """
    families = [Family(name, text) for name, text, _ in FIGURES]
    takes = [take for _, _, take in FIGURES]
    elapsed = Family(
        "hami_container_last_kernel_elapsed_seconds",
        "Seconds since a process of the container last launched a kernel or opened its cache.",
    )
    for one in named:
        prefix = (ZONE, one.namespace, one.pod, one.container)
        for device in one.usage.devices:
            its = labels.get(DEVICE, (*prefix, str(device.index), device.uuid))
            for family, take in zip(families, takes, strict=True):
                value = take(device)
                if not isinstance(value, Absent):
                    family.pairs.append((its, value))
            if one.usage.last_kernel_time is not None:
                elapsed.add(its, max(int(now) - one.usage.last_kernel_time, 0))
    yield from families
    yield elapsed


def mig_families(
    named: Sequence[Named], labels: LabelCache, complain: Callable[[HamiCacheError], None]
) -> Iterable[Metric]:
    """``hami_mig_device_info``, from the pods' annotations.

    Args:
        named: the containers to export.
        labels: keeps label sets between scrapes.
        complain: told of an annotation that cannot be used; the pod then has no sample.
    """
    info = Family("hami_mig_device_info", "A MIG device that a container holds; always 1.")
    for one in _once_per_pod(named):
        assert one.object is not None  # only containers with a pod object are passed on
        try:
            allocations = mig_allocations(one.object)
        except HamiCacheError as error:
            complain(error)
            continue
        for given in allocations:
            its = labels.get(
                MIG,
                (
                    ZONE, one.namespace, one.pod, given.container, str(given.device_index),
                    given.gpu_uuid, given.mig_uuid, given.profile, str(given.gpu_instance_id),
                    str(given.compute_instance_id),
                ),
            )  # fmt: skip
            info.add(its, 1)
    yield info


def _once_per_pod(named: Iterable[Named]) -> Iterable[Named]:
    return {one.object.uid: one for one in named if one.object is not None}.values()


def legacy_families(named: Sequence[Named], labels: LabelCache, now: float) -> Iterable[Metric]:
    """Upstream's old names, with their own labels; only with ``--legacy-metrics``."""
    used = Family("vGPU_device_memory_usage_in_bytes", "vGPU device usage.")
    limit = Family("vGPU_device_memory_limit_in_bytes", "vGPU device limit.")
    described = Family(
        "Device_memory_desc_of_container",
        "Container device memory; its parts are in the labels, so every change is a new series.",
    )
    utilization = Family("Device_utilization_desc_of_container", "Container device utilization.")
    elapsed = Family("Device_last_kernel_of_container", "Seconds since the last kernel.")
    for one in named:
        prefix = (ZONE, one.namespace, one.pod, one.container)
        for device in one.usage.devices:
            values = (*prefix, str(device.index), device.uuid)
            its = labels.get(LEGACY, values)
            limit.add(its, device.limit)
            if not isinstance(device.total, Absent):
                used.add(its, device.total)
                _describe(described, labels, values, device, device.total)
            if not isinstance(device.sm_util, Absent):
                utilization.add(its, device.sm_util)
            if one.usage.last_kernel_time is not None:
                elapsed.add(its, max(int(now) - one.usage.last_kernel_time, 0))
    yield from (used, limit, described, utilization, elapsed)


def _describe(
    family: Family, labels: LabelCache, values: tuple[str, ...], device: DeviceUsage, total: int
) -> None:
    """One sample of ``Device_memory_desc_of_container``: its labels carry the breakdown."""
    parts = (device.context, device.module, device.data)
    if any(isinstance(part, Absent) for part in parts):
        return
    numbers = [part for part in parts if not isinstance(part, Absent)]
    # Upstream lets this wrap below zero.
    offset = max(total - sum(numbers), 0)
    names = (*LEGACY, "context", "module", "data", "offset")
    family.add(labels.get(names, (*values, *map(str, numbers), str(offset))), total)


def legacy_mig_families(named: Sequence[Named], labels: LabelCache) -> Iterable[Metric]:
    """``MigInfo``: upstream's old name for a container's MIG device."""
    info = Family("MigInfo", "A MIG device that a container holds; the value is its instance id.")
    for one in _once_per_pod(named):
        assert one.object is not None  # only containers with a pod object are passed on
        try:
            allocations = mig_allocations(one.object)
        except HamiCacheError:
            continue  # told by mig_families
        for given in allocations:
            values = (
                ZONE, one.namespace, one.pod, given.container, str(given.device_index),
                given.gpu_uuid, str(given.gpu_instance_id),
            )  # fmt: skip
            info.add(labels.get((*LEGACY, "instanceid"), values), given.gpu_instance_id)
    yield info
