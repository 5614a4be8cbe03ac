"""NVML for the rest of the program: up or down with a reason, never in the way.

`Nvml` is opened when it can be, closed while the MIG layout of the machine is being changed, and
tried again on every pass when it was not there. All of it happens on one thread, and every pass has
a deadline: a driver that hangs costs the first caller that long, and everybody after that an
immediate "timeout", until the call comes back.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from hami_cache.node.nvml import Driver, DriverCallError
from hami_cache.node.nvml_host import HostPass, read_host
from hami_cache.node.nvml_reasons import GPU_LOST, ErrorCounts, FailedCall, down_reason
from hami_cache.node.nvml_rows import read_partitions, read_processes
from hami_cache.node.nvml_status import (
    HINTS,
    MIG_APPLY,
    STOPPED,
    TIMEOUT,
    HostReport,
    NvmlStatus,
    NvmlUnavailableError,
    report_on,
)
from hami_cache.node.nvml_worker import Worker
from hami_cache.node.rows import DeviceRows, PartitionRow, PartitionTarget

MIG_APPLY_LOCK: Final = Path("/tmp/hami/hami-mig-apply.lock")
"""While this file exists HAMi's device plugin changes the MIG layout, and nobody may hold NVML."""

DEADLINE: Final = 3.0
"""Seconds a pass may take: well inside Prometheus' usual scrape timeout of 10."""

REOPEN_AFTER: Final = 60.0
"""Seconds after which a session that lost a card is opened anew: only then NVML looks for it."""

_LOCK_LOOKS: Final = 0.25  # seconds between two looks at the lock while there is nothing else to do
_FAREWELL: Final = 1.0  # seconds to wait for the driver when the program ends

T = TypeVar("T")

log = logging.getLogger(__name__)


class Nvml:
    """The session, for any number of threads; a `ProcessReader` and `PartitionReader`.

    Args:
        lock: the MIG apply lock.
        deadline: seconds a caller waits for a pass.
        board_readings: let `host_devices` read temperature, power and memory errors too.
        keep_open: False gives NVML back after each pass.
        reopen_after: seconds between two attempts to find a lost card again.
        lock_looks: seconds between two looks at the lock while no pass runs.
    """

    def __init__(
        self,
        *,
        lock: Path = MIG_APPLY_LOCK,
        deadline: float = DEADLINE,
        board_readings: bool = False,
        keep_open: bool = True,
        reopen_after: float = REOPEN_AFTER,
        lock_looks: float = _LOCK_LOOKS,
    ) -> None:
        self._lock = lock
        self._deadline = deadline
        self._board_readings = board_readings
        self._keep_open = keep_open
        self._reopen_after = reopen_after
        self._lock_looks = lock_looks
        self._errors = ErrorCounts()
        self._driver = Driver(self._forbid_while_locked)
        self._opened_at = 0.0
        self._worker: Worker | None = None
        self._status = NvmlStatus(False, STOPPED, "NVML was not started")

    def start(self) -> None:
        """Make the lock's directory, start the thread, try to open NVML; a failure is no error."""
        try:
            self._lock.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            log.warning("cannot create %s: %s", self._lock.parent, error.strerror)
        self._driver = Driver(self._forbid_while_locked)
        self._worker = Worker(self._look_at_lock, self._lock_looks)
        try:
            self._run(lambda _: None)
        except NvmlUnavailableError:
            return  # noted and logged where it was found out

    def shutdown(self) -> None:
        """Give NVML back and end the thread; a hung driver is left behind after a second."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop(self._give_back, _FAREWELL)
            self._status = NvmlStatus(False, STOPPED, "NVML was shut down")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()

    @property
    def status(self) -> NvmlStatus:
        """Up or down, as the last pass left it; asks nobody."""
        return self._status

    @property
    def errors(self) -> Mapping[FailedCall, int]:
        """How often which call failed on which card, since the start of the program."""
        return self._errors.snapshot()

    def host_devices(self) -> HostReport:
        """Read every card. Never raises: what cannot be read is absent, bad or down, with why."""
        result = HostPass()
        try:
            self._run(lambda driver: self._read_host(driver, result))
        except NvmlUnavailableError as error:
            return report_on(result, error)
        return report_on(result, None)

    def processes(self, device_ids: Sequence[str]) -> list[DeviceRows]:
        """Read the processes of the cards with these UUIDs.

        Returns:
            One entry per card, in that order; a card that no handle answers for is reported unread.

        Raises:
            NvmlUnavailableError: NVML cannot be asked now.
        """
        return self._run(lambda driver: read_processes(driver, device_ids, self._errors))

    def partitions(self, targets: Sequence[PartitionTarget]) -> list[PartitionRow]:
        """Read these partitions, each on its own handle.

        Returns:
            One row per target, in that order.

        Raises:
            NvmlUnavailableError: NVML cannot be asked now.
        """
        return self._run(lambda driver: read_partitions(driver, targets, self._errors))

    def _run(self, job: Callable[[Driver], T]) -> T:
        """Run a pass on the worker, within the deadline."""
        if self._worker is None:
            raise NvmlUnavailableError(STOPPED, "NVML is not started")
        try:
            return self._worker.call(lambda: self._pass(job), self._deadline)
        except TimeoutError:
            text = f"the NVIDIA driver did not answer within {self._deadline:g} s"
            stuck = NvmlUnavailableError(TIMEOUT, text, HINTS[TIMEOUT])
            self._note(NvmlStatus(False, stuck.reason, str(stuck)))
            raise stuck from None

    # Everything below runs on the worker's thread.

    def _pass(self, job: Callable[[Driver], T]) -> T:
        try:
            if not self._driver.is_open:
                self._driver.open()
                self._opened_at = time.monotonic()
            result = job(self._driver)
        except DriverCallError as error:
            reason = down_reason(error.code)
            unavailable = NvmlUnavailableError(reason, str(error), HINTS.get(reason))
            raise self._down(unavailable) from None
        except NvmlUnavailableError as error:
            raise self._down(error) from None
        self._note(NvmlStatus(True))
        if not self._keep_open:
            self._give_back()
        return result

    def _read_host(self, driver: Driver, result: HostPass) -> None:
        read_host(driver, result, self._errors, board=self._board_readings)
        lost = any(bad.reason == GPU_LOST for bad in result.bad)
        if lost and time.monotonic() - self._opened_at >= self._reopen_after:
            self._give_back()

    def _forbid_while_locked(self) -> None:
        if os.path.lexists(self._lock):
            text = f"the MIG layout is being changed ({self._lock})"
            raise NvmlUnavailableError(MIG_APPLY, text)

    def _look_at_lock(self) -> None:
        if self._driver.is_open:
            try:
                self._forbid_while_locked()
            except NvmlUnavailableError as error:
                self._down(error)

    def _down(self, error: NvmlUnavailableError) -> NvmlUnavailableError:
        self._give_back()
        self._note(NvmlStatus(False, error.reason, str(error)))
        return error

    def _give_back(self) -> None:
        if self._driver.is_open:
            self._driver.close()

    def _note(self, status: NvmlStatus) -> None:
        """Keep the status, and say it once when it changes."""
        before, self._status = self._status, status
        if status.reason == before.reason:
            return
        if status.up:
            log.info("NVML answers")
        else:
            level = logging.INFO if status.reason == MIG_APPLY else logging.WARNING
            log.log(level, "NVML is not used (%s): %s", status.reason, status.detail)
