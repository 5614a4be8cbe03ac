"""One pass over the cards themselves: memory, utilization, MIG mode, and what the board measures.

Each reading fails alone and says why; a card that cannot be named, or fell off the bus, is reported
by its index and takes no other card with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from hami_cache.absent import Absent
from hami_cache.node.nvml import NOT_AVAILABLE, Driver, DriverCallError, Memory
from hami_cache.node.nvml_cards import BadDevice, Card, cards, count_cards
from hami_cache.node.nvml_reasons import (
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    NOT_SUPPORTED,
    ErrorCounts,
    host_reason,
)
from hami_cache.node.rows import UNSUPPORTED

INVALID_DATA: Final = "invalid_data"
"""A number that cannot be: more memory in use than there is, or more than 100 percent."""

NOT_READ: Final = Absent("not_read")
"""A reading that was not asked for."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HostDevice:
    """A card as NVML sees it in this pass.

    Attributes:
        index: NVML's index, the label `device_index`.
        uuid: the label `device_uuid`.
        name: product name as NVML spells it; see `device_type`.
        memory_used: bytes, the driver's own reserve included.
        memory_total: bytes.
        gpu_utilization: 0-100 percent.
        memory_utilization: of the memory controller, 0-100 percent.
        mig_enabled: in MIG mode now; False also for cards that know no MIG.
        temperature: degrees Celsius.
        power: milliwatts.
        ecc_errors: uncorrected memory errors since the driver was loaded.

    The last three are `not_read` unless the pass was asked for board readings.
    """

    index: int
    uuid: str
    name: str
    memory_used: int | Absent
    memory_total: int | Absent
    gpu_utilization: int | Absent
    memory_utilization: int | Absent
    mig_enabled: bool | Absent
    temperature: int | Absent = NOT_READ
    power: int | Absent = NOT_READ
    ecc_errors: int | Absent = NOT_READ


@dataclass(slots=True)
class HostPass:
    """What a pass has found so far; it grows while the pass runs.

    Attributes:
        count: cards there are.
        devices: cards that were read.
        bad: cards that could not be.
    """

    count: int = 0
    devices: list[HostDevice] = field(default_factory=list)
    bad: list[BadDevice] = field(default_factory=list)


def device_type(name: str, *, vendor_once: bool = False) -> str:
    """The label `device_type` for an NVML product name: ``NVIDIA-`` and the name.

    The program being replaced does not look whether the name has the vendor already, so current
    cards appear as ``NVIDIA-NVIDIA A100-SXM4-80GB``, and dashboards know them by that.

    Args:
        name: as NVML spells it.
        vendor_once: leave out the vendor of the name: ``NVIDIA-A100-SXM4-80GB``.
    """
    if vendor_once and name[:7] in ("NVIDIA ", "NVIDIA-"):
        name = name[7:]
    return f"NVIDIA-{name}"


def read_host(driver: Driver, result: HostPass, errors: ErrorCounts, *, board: bool) -> None:
    """Read every card.

    Args:
        driver: open.
        result: takes what is found, card by card, so that a pass which gets stuck has not been for
            nothing.
        errors: counts the calls that failed.
        board: also read temperature, power and memory errors.

    Raises:
        DriverCallError: the cards cannot even be counted.
    """
    result.count = count_cards(driver)
    for card in cards(driver, result.count, errors):
        if isinstance(card, BadDevice):
            result.bad.append(card)
            continue
        try:
            result.devices.append(_read_card(driver, card, errors, board))
        except DriverCallError as error:
            reason = host_reason(error.code)
            errors.add(card.index, error.call, reason)
            result.bad.append(BadDevice(card.index, reason, str(error)))


def _read_card(driver: Driver, card: Card, errors: ErrorCounts, board: bool) -> HostDevice:
    """Read one card.

    Raises:
        DriverCallError: it has no name to be labelled with, or was lost: then none of its numbers
            is of now.
    """

    def reading(ask: Callable[[object], T]) -> T | Absent:
        try:
            return ask(card.handle)
        except DriverCallError as error:
            if error.code == GPU_IS_LOST:
                raise
            reason = host_reason(error.code)
            errors.add(card.index, error.call, reason)
            return Absent(reason, str(error))

    name = driver.name(card.handle)
    used, total = _plausible_memory(reading(driver.memory))
    gpu, controller = _plausible_rates(reading(driver.utilization))
    device = HostDevice(
        index=card.index,
        uuid=card.uuid,
        name=name,
        memory_used=used,
        memory_total=total,
        gpu_utilization=gpu,
        memory_utilization=controller,
        mig_enabled=reading(lambda handle: _mig_enabled(driver, handle)),
    )
    if not board:
        return device
    return replace(
        device,
        temperature=reading(driver.temperature),
        power=reading(driver.power),
        ecc_errors=reading(driver.ecc_errors),
    )


def _mig_enabled(driver: Driver, handle: object) -> bool:
    try:
        return driver.mig_enabled(handle)
    except DriverCallError as error:
        if error.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
            return False
        raise


def _plausible_memory(memory: Memory | Absent) -> tuple[int | Absent, int | Absent]:
    """Used and total. Unified memory is not 0 bytes: such a card has neither."""
    if isinstance(memory, Absent):
        return memory, memory
    if memory.total in (0, NOT_AVAILABLE):
        return Absent(UNSUPPORTED), Absent(UNSUPPORTED)
    used = memory.used if memory.used <= memory.total else Absent(INVALID_DATA)
    return used, memory.total


def _plausible_rates(rates: tuple[int, int] | Absent) -> tuple[int | Absent, int | Absent]:
    if isinstance(rates, Absent):
        return rates, rates
    gpu, controller = (rate if rate <= 100 else Absent(INVALID_DATA) for rate in rates)
    return gpu, controller
