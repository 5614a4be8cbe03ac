"""The two annotations HAMi's scheduler writes on a pod: shared devices and MIG instances."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hami_cache.node.annotations import annotation, decoded, refusal
from hami_cache.node.gojson import Array, Integer, Optional, Struct, Text
from hami_cache.node.pods import Pod
from hami_cache.node.rows import Placement

HAMI_ANNOTATION = "hami.io/vgpu-devices-allocated"
HAMI_MIG_ANNOTATION = "hami.io/vgpu-mig-allocations"

_INSTANCE_SUFFIX = re.compile(r"\[[0-9]+-[0-9]+\]$")
_INT64 = Integer(-(2**63), 2**63 - 1)
_UINT32 = Integer(0, 2**32 - 1)
_MIG_ENTRIES = Array(
    Struct(
        {
            "containerIndex": _INT64,
            "deviceIndex": _INT64,
            "gpuUUID": Text(),
            "profile": Text(),
            "placement": Struct({"start": _UINT32, "size": _UINT32}),
            "migUUID": Text(),
            "gpuInstanceID": Optional(_UINT32),
            "computeInstanceID": Optional(_UINT32),
        }
    )
)


@dataclass(frozen=True, slots=True)
class HamiDevice:
    """One share of a card.

    Attributes:
        uuid: the card, without the ``[geometry-position]`` that static MIG appends.
        type: such as ``NVIDIA``.
        memory_mib: the memory granted, in MiB.
        cores_percent: the cores granted, in percent of the card; 0 is no limit.
    """

    uuid: str
    type: str
    memory_mib: int
    cores_percent: int


@dataclass(frozen=True, slots=True)
class MigAllocation:
    """One MIG instance that exists and belongs to a container (dynamic MIG).

    Attributes:
        container: the container's name.
        device_index: its position among the container's devices.
        gpu_uuid: the parent card.
        profile: such as ``1g.10gb``.
        placement: the memory slices it occupies.
        mig_uuid: its own UUID.
        gpu_instance_id: the driver's GPU instance.
        compute_instance_id: the driver's compute instance.
    """

    container: str
    device_index: int
    gpu_uuid: str
    profile: str
    placement: Placement
    mig_uuid: str
    gpu_instance_id: int
    compute_instance_id: int


def hami_devices(pod: Pod) -> tuple[tuple[HamiDevice, ...], ...]:
    """The shared devices of each container, in HAMi's order of containers.

    The text is ``uuid,type,usedmem,usedcores:`` for each device and ``;`` after each container; a
    container without devices is an empty entry. HAMi, pkg/device/devices.go
    (EncodeContainerDevices, EncodePodSingleDevice).

    Raises:
        AllocationError: a device has fewer than four members or a number that is none.
    """
    text = annotation(pod, HAMI_ANNOTATION)
    if not text:
        return ()
    return tuple(
        tuple(_device(pod, device) for device in container.split(":") if device)
        for container in text.removesuffix(";").split(";")
    )


def mig_allocations(pod: Pod) -> tuple[MigAllocation, ...]:
    """The MIG instances that the driver has already made.

    An entry that has none of the three runtime members is a reservation and is passed over; so is
    one whose container index (init containers count first) names no container of the pod.

    Raises:
        AllocationError: the annotation is no such list, an entry is incomplete or has only some of
            the runtime members, or two entries are for one device of one container. Then nothing
            in it is believed.
    """
    entries = decoded(pod, HAMI_MIG_ANNOTATION, _MIG_ENTRIES)
    if problem := _problem(entries):
        raise refusal(pod, HAMI_MIG_ANNOTATION, problem)
    containers = [c.name for kind in ("init", "regular") for c in pod.containers if c.kind == kind]
    return tuple(
        MigAllocation(
            container=containers[entry["containerIndex"]],
            device_index=entry["deviceIndex"],
            gpu_uuid=entry["gpuUUID"],
            profile=entry["profile"],
            placement=Placement(entry["placement"]["start"], entry["placement"]["size"]),
            mig_uuid=entry["migUUID"],
            gpu_instance_id=entry["gpuInstanceID"],
            compute_instance_id=entry["computeInstanceID"],
        )
        for entry in entries
        if all(_runtime_members(entry)) and entry["containerIndex"] < len(containers)
    )


def _problem(entries: tuple[Mapping[str, Any], ...]) -> str:
    """What makes the whole list unbelievable, "" if nothing does."""
    taken: set[tuple[int, int]] = set()
    for i, entry in enumerate(entries):
        slot = (entry["containerIndex"], entry["deviceIndex"])
        reserved = entry["gpuUUID"] and entry["profile"] and entry["placement"]["size"]
        if min(slot) < 0 or not reserved:
            return f"entry {i} is incomplete"
        if len(set(_runtime_members(entry))) != 1:
            return f"entry {i} has only a part of its runtime identity"
        if slot in taken:
            return f"container {slot[0]} has two entries for its device {slot[1]}"
        taken.add(slot)
    return ""


def _runtime_members(entry: Mapping[str, Any]) -> tuple[bool, bool, bool]:
    """Which of the members that the device plugin adds later are there."""
    return (
        entry["migUUID"] != "",
        entry["gpuInstanceID"] is not None,
        entry["computeInstanceID"] is not None,
    )


def _device(pod: Pod, text: str) -> HamiDevice:
    match = re.fullmatch(r"([^,]*),([^,]*),([0-9]{1,10}),([0-9]{1,10})(?:,.*)?", text, re.DOTALL)
    if match is None:
        raise refusal(pod, HAMI_ANNOTATION, f"{text[:100]!r} is not uuid,type,usedmem,usedcores")
    return HamiDevice(_INSTANCE_SUFFIX.sub("", match[1]), match[2], int(match[3]), int(match[4]))
