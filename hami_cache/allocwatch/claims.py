"""Claims: which container holds which card, according to the kubelet."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hami_cache.node.podresources import Allocation
from hami_cache.node.pods import PodView

GPU_RESOURCE = "nvidia.com/gpu"
"""The extended resource of NVIDIA's device plugin, and of HAMi's."""

_REPLICAS = (
    re.compile(r"(.+)::[0-9]+"),  # NVIDIA's device plugin, time-slicing and MPS: GPU-x::3
    re.compile(r"(nvidia[0-9]+)/vgpu[0-9]+"),  # GKE's device plugin: nvidia0/vgpu1
    re.compile(r"(GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})-[0-9]+"),  # HAMi's
)


@dataclass(frozen=True, slots=True)
class Holder:
    """A container, by the names that the kubelet gives."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One device id held by one container; a shared card has several claims."""

    device: str
    holder: Holder


def claims_of(allocations: Iterable[Allocation], resource: str = GPU_RESOURCE) -> list[Claim]:
    """One claim per (container, device id) of the resource, in the kubelet's order, nothing merged.

    The resource name is compared whole (MIG resources and ``.shared`` names are other resources)
    and ids are passed on as they are.
    """
    return [
        Claim(device, Holder(entry.namespace, entry.pod, entry.container))
        for entry in allocations
        if entry.resource == resource
        for device in entry.device_ids
    ]


def on_cards(claims: Iterable[Claim]) -> list[Claim]:
    """The same claims, each naming the physical card instead of a replica of it."""
    return [replace(claim, device=card_of(claim.device)) for claim in claims]


def card_of(device_id: str) -> str:
    """The physical card behind a device id: ``GPU-x::3`` is a share of ``GPU-x``.

    >>> card_of("GPU-x::3")
    'GPU-x'
    """
    for replica in _REPLICAS:
        if match := replica.fullmatch(device_id):
            return match[1]
    return device_id


def without_ended(claims: Iterable[Claim], view: PodView) -> list[Claim]:
    """The claims of pods that still run: the kubelet goes on listing a pod that has ended.

    A pod that the view does not know is dropped only if the view is fresh, that is: complete and
    current.
    """
    known: set[tuple[str, str]] = set()
    running: set[tuple[str, str]] = set()
    for pod in view.pods.values():
        known.add((pod.namespace, pod.name))
        if not pod.ended:
            running.add((pod.namespace, pod.name))

    def counts(holder: Holder) -> bool:
        name = (holder.namespace, holder.pod)
        return name in running or (name not in known and not view.fresh)

    return [claim for claim in claims if counts(claim.holder)]
