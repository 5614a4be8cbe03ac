"""What a session with NVML can say of itself: up or down and why, and the report on the cards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hami_cache.errors import HamiCacheError
from hami_cache.node.nvml_cards import BadDevice
from hami_cache.node.nvml_host import HostDevice, HostPass

TIMEOUT: Final = "timeout"
"""The driver does not answer in time."""

MIG_APPLY: Final = "mig_apply"
"""The MIG layout is being changed, and NVML given back for that."""

STOPPED: Final = "stopped"
"""Not started yet, or shut down."""

HINTS: Final = {
    "library_not_found": "libnvidia-ml.so.1 comes with the driver: run with NVIDIA's container "
    "runtime and NVIDIA_DRIVER_CAPABILITIES=utility, or mount it",
    "driver_library_mismatch": "the driver was replaced under this program: restart it",
    TIMEOUT: "see whether nvidia-smi hangs too, and the kernel log for Xid errors",
}
"""What an operator can do, by reason."""


class NvmlUnavailableError(HamiCacheError):
    """No card can be asked now.

    Attributes:
        reason: one word: `library_not_found`, `driver_not_loaded`, `driver_library_mismatch`,
            `permission`, `transient_driver_error`, `mig_apply`, `timeout`, `stopped`.
    """

    def __init__(self, reason: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class NvmlStatus:
    """Whether NVML can be asked, as of the last attempt; `reason` and `detail` say why not."""

    up: bool
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class HostReport:
    """The cards of this machine, as one pass found them.

    Attributes:
        status: down means that the lists are empty, or with the reason `timeout`, that they hold
            what was read before the driver got stuck, and the other cards as bad.
        devices: cards that were read, each reading for itself.
        bad: cards that could not be named or fell off the bus.
    """

    status: NvmlStatus
    devices: tuple[HostDevice, ...] = ()
    bad: tuple[BadDevice, ...] = ()


def report_on(result: HostPass, error: NvmlUnavailableError | None) -> HostReport:
    """The report on a pass that came to its end, or to `error`.

    Of a pass that got stuck the cards already read are kept; it may still be adding to `result`.
    """
    if error is None:
        return HostReport(NvmlStatus(True), tuple(result.devices), tuple(result.bad))
    status = NvmlStatus(False, error.reason, str(error))
    if error.reason != TIMEOUT:
        return HostReport(status)
    devices, bad = tuple(result.devices), tuple(result.bad)
    known = {device.index for device in devices} | {device.index for device in bad}
    missing = (index for index in range(result.count) if index not in known)
    unread = (BadDevice(index, TIMEOUT, str(error)) for index in missing)
    return HostReport(status, devices, (*bad, *unread))
