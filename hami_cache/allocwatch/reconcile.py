"""From claims to readings: the memory that each card should report, computed anew every time."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
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


MeasuredMemory = Callable[[], Mapping[Holder, Mapping[str, int | Absent] | Absent]]
"""What the containers' caches measured: bytes by card uuid, by holder; called once per poll.

A holder that is not there has no cache. The cards of one that is are all that it uses; a figure
that cannot be trusted now is `Absent`, as is the whole holder when its cache cannot be read.
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

    A figure counts once, however many replicas of the card its container holds. A card with an
    absent figure on it is absent as a whole, and so are the cards claimed by a container whose
    cache cannot be read: their last published readings stay.

    Attributes:
        measure: where the figures come from.
        unmeasured: what the claims of containers without a cache hold.
    """

    measure: MeasuredMemory
    unmeasured: Policy = FractionPolicy()

    def held(self, devices: Sequence[Device], claims: Sequence[Claim]) -> list[int | Absent]:
        """The measured memory of every claiming container, on the cards that its cache names."""
        measured = self.measure()
        on_card: defaultdict[str, list[int | Absent]] = defaultdict(list)
        for holder, cards in _claimed(claims).items():
            figures = measured.get(holder, {})
            if isinstance(figures, Absent):
                figures = dict.fromkeys(cards, figures)
            for card, figure in figures.items():
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


def _claimed(claims: Iterable[Claim]) -> Mapping[Holder, set[str]]:
    """The cards that each holder claims."""
    cards: defaultdict[Holder, set[str]] = defaultdict(set)
    for claim in claims:
        cards[claim.holder].add(claim.device)
    return cards


def _reading(device: Device, held: int | Absent) -> Reading:
    if isinstance(held, Absent):
        return Reading(device.index, held)
    used = min(held, device.aperture_bytes)
    return Reading(device.index, Memory(used, device.aperture_bytes - used))
