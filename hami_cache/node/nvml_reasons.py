"""What NVML's return codes mean for a figure, and how often which call failed.

The return codes are those of nvml.h (`nvmlReturn_t`); nvidia-ml-py has them too, but reasons are
needed on machines where nothing of NVIDIA is there, and by code that must not import it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from hami_cache.node.rows import PERMISSION, TRANSIENT_DRIVER_ERROR, TRUNCATED, UNSUPPORTED

SUCCESS: Final = 0
NOT_SUPPORTED: Final = 3
NO_PERMISSION: Final = 4
NOT_FOUND: Final = 6
INSUFFICIENT_SIZE: Final = 7
DRIVER_NOT_LOADED: Final = 9
LIBRARY_NOT_FOUND: Final = 12
FUNCTION_NOT_FOUND: Final = 13
GPU_IS_LOST: Final = 15
LIB_RM_VERSION_MISMATCH: Final = 18
UNKNOWN: Final = 999

GPU_LOST: Final = "gpu_lost"
"""The card fell off the bus; the slice section has only `transient_driver_error` for it."""

_UNSUPPORTED_CODES = frozenset(
    {
        NOT_SUPPORTED,
        DRIVER_NOT_LOADED,
        LIBRARY_NOT_FOUND,
        FUNCTION_NOT_FOUND,
        LIB_RM_VERSION_MISMATCH,
    }
)

_DOWN_REASONS = {
    NO_PERMISSION: PERMISSION,
    DRIVER_NOT_LOADED: "driver_not_loaded",
    LIBRARY_NOT_FOUND: "library_not_found",
    LIB_RM_VERSION_MISMATCH: "driver_library_mismatch",
}


def partition_reason(code: int) -> str:
    """Why the read of a partition that answered `code` gives no figure; "" for success."""
    if code == SUCCESS:
        return ""
    if code in _UNSUPPORTED_CODES:
        return UNSUPPORTED
    return PERMISSION if code == NO_PERMISSION else TRANSIENT_DRIVER_ERROR


def process_reason(code: int) -> str:
    """The same for the process list and the utilization samples.

    There NOT_FOUND is an empty answer, and INSUFFICIENT_SIZE a list that did not fit.
    """
    if code == NOT_FOUND:
        return ""
    return TRUNCATED if code == INSUFFICIENT_SIZE else partition_reason(code)


def host_reason(code: int) -> str:
    """The same for a reading of a whole card."""
    return GPU_LOST if code == GPU_IS_LOST else partition_reason(code)


def down_reason(code: int) -> str:
    """Why NVML as a whole cannot be used, after nvmlInit or the device count answered `code`."""
    return _DOWN_REASONS.get(code, TRANSIENT_DRIVER_ERROR)


class FailedCall(NamedTuple):
    """What error counts are kept by: the card's index, the NVML function, the reason word."""

    device: int
    call: str
    reason: str


class ErrorCounts:
    """How often which call failed on which card; grows with the kinds of failure only."""

    def __init__(self) -> None:
        self._counts: Counter[FailedCall] = Counter()

    def add(self, device: int, call: str, reason: str) -> None:
        """Count one failure."""
        self._counts[FailedCall(device, call, reason)] += 1

    def snapshot(self) -> Mapping[FailedCall, int]:
        """The counts so far, safe to keep; they never go down."""
        return dict(self._counts)
