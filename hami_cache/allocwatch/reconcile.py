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


@dataclass(frozen=True, slots=True)
class Measured:
    """What a container's cache measured.

    Attributes:
        cards: bytes by card uuid, all cards that the cache names; `Absent` for a figure that cannot
            be trusted now.
        granted: the cards that HAMi's scheduler gave to the pod, where that is known: HAMi may
            choose another card than the one whose id the kubelet handed out.
    """

    cards: Mapping[str, int | Absent]
    granted: frozenset[str] = frozenset()


MeasuredMemory = Callable[[], Mapping[Holder, Measured | Absent]]
"""What the caches measured, by container; called once per poll.

A container that is not there has no cache; one whose cache cannot be read is `Absent`.
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

    A figure counts once, however many replicas of the card its container holds, and only on a card
    that the container claims or was granted: a cache is written by its tenant, who must not fill
    other cards. A card with an absent figure on it is absent as a whole, and so are the cards of a
    container whose cache cannot be read or says nothing of them: their last published readings
    stay.

    Attributes:
        measure: where the figures come from.
        unmeasured: what the claims of containers without a cache hold.
    """

    measure: MeasuredMemory
    unmeasured: Policy = FractionPolicy()

    def held(self, devices: Sequence[Device], claims: Sequence[Claim]) -> list[int | Absent]:
        """The measured memory of every claiming container that has a cache, and the rest's."""
        measured = self.measure()
        on_card: defaultdict[str, list[int | Absent]] = defaultdict(list)
        for holder, claimed in _cards_by_holder(claims).items():
            if holder in measured:
                for card, figure in _figures(measured[holder], claimed).items():
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


def _cards_by_holder(claims: Iterable[Claim]) -> Mapping[Holder, set[str]]:
    cards: defaultdict[Holder, set[str]] = defaultdict(set)
    for claim in claims:
        cards[claim.holder].add(claim.device)
    return cards


def _figures(measured: Measured | Absent, claimed: set[str]) -> Mapping[str, int | Absent]:
    """What one container holds on each card that is its own."""
    if isinstance(measured, Absent):
        return dict.fromkeys(claimed, measured)
    silent = Absent("source_disagreement", "the container's cache does not name the card")
    # The grant is the pod's: which of its containers has which of the cards, only the caches say.
    granted = {card: measured.cards[card] for card in measured.granted & measured.cards.keys()}
    return granted or {card: measured.cards.get(card, silent) for card in claimed}


def _reading(device: Device, held: int | Absent) -> Reading:
    if isinstance(held, Absent):
        return Reading(device.index, held)
    used = min(held, device.aperture_bytes)
    return Reading(device.index, Memory(used, device.aperture_bytes - used))
