"""The cards of this machine: those that answer, and those that do not, each for itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hami_cache.node.nvml import Driver, DriverCallError
from hami_cache.node.nvml_reasons import ErrorCounts, host_reason
from hami_cache.node.rows import TRANSIENT_DRIVER_ERROR

MAX_DEVICES: Final = 256
"""Cards that are looked at: a count from the driver is not believed further."""


@dataclass(frozen=True, slots=True)
class Card:
    """A card that answers to its index and tells its UUID; `handle` is good while NVML is open."""

    index: int
    uuid: str
    handle: object


@dataclass(frozen=True, slots=True)
class BadDevice:
    """A card that is there but cannot be named, or was lost while it was read.

    Attributes:
        index: as NVML counts; the other cards keep theirs.
        reason: `gpu_lost`, or a word of `hami_cache.node.rows`, or `timeout`.
        detail: which call answered what, for people.
    """

    index: int
    reason: str
    detail: str


def cards(driver: Driver, count: int, errors: ErrorCounts) -> Iterator[Card | BadDevice]:
    """Look at each of `count` cards, in order of their index."""
    for index in range(count):
        try:
            handle = driver.handle(index)
            uuid = driver.uuid(handle)
        except DriverCallError as error:
            reason = host_reason(error.code)
            errors.add(index, error.call, reason)
            yield BadDevice(index, reason, str(error))
            continue
        if uuid:
            yield Card(index, uuid, handle)
        else:
            errors.add(index, "nvmlDeviceGetUUID", TRANSIENT_DRIVER_ERROR)
            yield BadDevice(index, TRANSIENT_DRIVER_ERROR, "the driver gave an empty UUID")


def count_cards(driver: Driver) -> int:
    """How many cards there are, within reason.

    Raises:
        DriverCallError: NVML does not even know that.
    """
    return min(driver.device_count(), MAX_DEVICES)
