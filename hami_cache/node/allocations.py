"""Which devices a pod's containers hold, from the annotations the schedulers write.

GPUStack's record is read here, HAMi's in `hami.py`. Each annotation is read whole or refused whole
with an `AllocationError`: half an allocation would send a figure to the wrong container.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from hami_cache.node.annotations import AllocationError, decoded
from hami_cache.node.gojson import Array, Integer, Struct, Table, Text
from hami_cache.node.hami import MigAllocation, hami_devices, mig_allocations
from hami_cache.node.pods import Pod
from hami_cache.node.rows import MANUFACTURER_NVIDIA, Placement

__all__ = [
    "CARVED",
    "GPUSTACK_ANNOTATION",
    "Allocation",
    "AllocationError",
    "MigAllocation",
    "Mode",
    "allocations",
    "carved_cards",
    "gpustack_allocations",
    "hami_allocations",
    "mig_allocations",
]

GPUSTACK_ANNOTATION = "device.gpustack.ai/accelerator.allocated"


class Mode(IntEnum):
    """How much of a device an allocation holds, as GPUStack numbers it."""

    NONE = 0
    EXCLUSIVE = 1
    SHARED = 2
    SLICED = 3
    PARTITIONED = 4
    VISIBILITY = 5


CARVED = frozenset({Mode.SLICED, Mode.PARTITIONED})
"""The modes under which a container holds a share that can be measured as its own."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """One device, or one hardware partition of it, that a container was given.

    Attributes:
        container: the container's name, "" where the annotation does not say.
        manufacturer: such as ``nvidia``.
        device_id: the card's UUID.
        mode: a `Mode`, or a number this build does not know.
        profile: a partition's profile, such as ``1g.10gb``; "" if it is none.
        placements: the runs of memory slices a partition occupies, in the recorded order.
        partition_id: the partition's own UUID, "" when none was recorded.
    """

    container: str
    manufacturer: str
    device_id: str
    mode: int
    profile: str = ""
    placements: tuple[Placement, ...] = ()
    partition_id: str = ""


_INT32 = Integer(-(2**31), 2**31 - 1)
_UINT32 = Integer(0, 2**32 - 1)
_PLACEMENTS = Array(Struct({"start": _INT32, "length": _INT32}))
_PROFILE_COUNTS = Array(Struct({"name": Text(), "count": _INT32}))
# Members that nothing here uses are listed all the same: a wrong type in one of them makes Go, and
# therefore the rest of the cluster, refuse the annotation.
_ACCELERATOR = Struct(
    {
        "id": Text(),
        "index": _UINT32,
        "mode": _UINT32,
        "allocated": _INT32,
        "remaining": _INT32,
        "allocatedProfiles": _PROFILE_COUNTS,
        "remainingProfiles": _PROFILE_COUNTS,
        "allocatedPhysicalProfile": Text(),
        "allocatedPhysicalPlacements": _PLACEMENTS,
        "allocatedPhysicalID": Text(),
        "allocatedLogicalPlacements": _PLACEMENTS,
    }
)
_GROUP = Struct({"id": Text(), "manufacturer": Text(), "accelerators": Array(_ACCELERATOR)})
_CONTAINERS = Table(
    Struct({"devices": Struct({"groups": Array(_GROUP)}), "deviceIDs": Array(Text())})
)


def allocations(pod: Pod) -> tuple[Allocation, ...]:
    """Everything the pod's containers hold, whichever scheduler recorded it.

    Raises:
        AllocationError: one of the annotations cannot be read.
    """
    return (*gpustack_allocations(pod), *hami_allocations(pod))


def gpustack_allocations(pod: Pod) -> tuple[Allocation, ...]:
    """GPUStack's record, by container name in the annotation's order.

    Raises:
        AllocationError: encoding/json would not decode the annotation.
    """
    containers = decoded(pod, GPUSTACK_ANNOTATION, _CONTAINERS)
    return tuple(
        Allocation(
            container=name,
            manufacturer=group["manufacturer"],
            device_id=accelerator["id"],
            mode=accelerator["mode"],
            profile=accelerator["allocatedPhysicalProfile"],
            placements=tuple(
                Placement(run["start"], run["length"])
                for run in accelerator["allocatedPhysicalPlacements"]
            ),
            partition_id=accelerator["allocatedPhysicalID"],
        )
        for name, record in containers.items()
        for group in record["devices"]["groups"]
        for accelerator in group["accelerators"]
    )


def hami_allocations(pod: Pod) -> tuple[Allocation, ...]:
    """HAMi's two annotations: shares are `Mode.SLICED`, MIG instances `Mode.PARTITIONED`.

    The shares carry no container name: versions differ in whether init containers are counted.

    Raises:
        AllocationError: one of the annotations cannot be read.
    """
    shares = [
        Allocation("", MANUFACTURER_NVIDIA, device.uuid, Mode.SLICED)
        for devices in hami_devices(pod)
        for device in devices
    ]
    partitions = [
        Allocation(
            container=mig.container,
            manufacturer=MANUFACTURER_NVIDIA,
            device_id=mig.gpu_uuid,
            mode=Mode.PARTITIONED,
            profile=mig.profile,
            placements=(mig.placement,),
            partition_id=mig.mig_uuid,
        )
        for mig in mig_allocations(pod)
    ]
    return (*shares, *partitions)


def carved_cards(held: Iterable[Allocation]) -> dict[str, set[str]]:
    """The cards of which somebody holds a share, by manufacturer: the only ones worth asking."""
    cards: dict[str, set[str]] = {}
    for allocation in held:
        if allocation.mode in CARVED:
            cards.setdefault(allocation.manufacturer, set()).add(allocation.device_id)
    return cards
