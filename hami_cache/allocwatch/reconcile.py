"""From claims to readings: the memory that each card should report, computed anew every time."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hami_cache.absent import Absent, total
from hami_cache.allocwatch.claims import Claim, Holder
from hami_cache.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Device:
    """A card of the node: its place, its name, its memory in bytes."""

    index: int
    uuid: str
    total_bytes: int
    reserved_bytes: int

    @property
    def aperture_bytes(self) -> int:
        """The memory that containers can use: total less reserved, nothing if that is negative."""
        return max(self.total_bytes - self.reserved_bytes, 0)


@dataclass(frozen=True, slots=True)
class Memory:
    """What a card reports of its memory, in bytes."""

    used_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The memory that the card at that index should report; absent, with the reason, if unknown."""

    index: int
    memory: Memory | Absent


MeasuredMemory = Callable[[], Mapping[tuple[Holder, str], int | Absent]]
"""What the containers' caches measured, by holder and card uuid, in bytes; called once per poll.

A holder with any entry has a readable cache, and its entries are all that it uses. A holder without
an entry has no cache. A figure that a cache has and that cannot be trusted now is `Absent`, never
left out and never zero.
"""


class Policy(Protocol):
    """How much memory the claims hold."""

    def held(self, devices: Sequence[Device], claims: Sequence[Claim]) -> list[int | Absent]:
        """Bytes held on each device, in their order, not yet bounded by the apertures."""
        ...


@dataclass(frozen=True, slots=True)
class FractionPolicy:
    """Every claim holds the same fraction of its card's aperture.

    Raises:
        ConfigError: the fraction is negative or not finite.
    """

    per_claim: float = 0.5

    def __post_init__(self) -> None:
        if not math.isfinite(self.per_claim) or self.per_claim < 0:
            raise ConfigError(f"{self.per_claim} is not a fraction", hint="take one in (0, 1]")

    def held(self, devices: Sequence[Device], claims: Sequence[Claim]) -> list[int | Absent]:
        """The fraction times the number of claims; ids are compared whole."""
        claimed = Counter(claim.device for claim in claims)
        # The share is a 64-bit float's, as upstream: past 2^53 it is not exact.
        return [int(d.aperture_bytes * self.per_claim) * claimed[d.uuid] for d in devices]


@dataclass(frozen=True, slots=True)
class MeasuredPolicy:
    """Containers hold what their caches measured; those without a cache hold a fraction per claim.

    One figure counts once, however many replicas of the card its container holds. A card with an
    absent figure on it is absent as a whole: its last published reading stays.

    Attributes:
        measure: where the figures come from.
        unmeasured: what the claims of containers without a cache hold.
    """

    measure: MeasuredMemory
    unmeasured: Policy = FractionPolicy()

    def held(self, devices: Sequence[Device], claims: Sequence[Claim]) -> list[int | Absent]:
        """The measured memory of every claiming container, on the cards that its cache names."""
        figures = self.measure()
        measured = {holder for holder, _ in figures}
        claiming = {claim.holder for claim in claims}
        on_card: defaultdict[str, list[int | Absent]] = defaultdict(list)
        for (holder, card), figure in figures.items():
            if holder in claiming:
                on_card[card].append(figure)
        rest = [claim for claim in claims if claim.holder not in measured]
        guessed = self.unmeasured.held(devices, rest)
        return [
            total([guess, *on_card[device.uuid]])
            for device, guess in zip(devices, guessed, strict=True)
        ]


def reconcile(devices: Sequence[Device], claims: Sequence[Claim], policy: Policy) -> list[Reading]:
    """The reading of every device, idle ones included; used memory never exceeds the aperture."""
    held = policy.held(devices, claims)
    return [_reading(device, used) for device, used in zip(devices, held, strict=True)]


def _reading(device: Device, held: int | Absent) -> Reading:
    if isinstance(held, Absent):
        return Reading(device.index, held)
    used = min(held, device.aperture_bytes)
    return Reading(device.index, Memory(used, device.aperture_bytes - used))
