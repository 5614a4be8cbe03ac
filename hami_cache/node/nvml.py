"""The driver: every call into libnvidia-ml, through nvidia-ml-py.

The only module that imports pynvml, and it does so when NVML is opened, not before. A call that
fails raises `DriverCallError` with NVML's return code; what a code means is `nvml_reasons`'
business. Handles are opaque and valid until `Driver.close`.

Lists of processes are read by their own protocol here: nvidia-ml-py's functions believe the count
the driver returns, however large, ask again once at most, and know only the newest version of a
call.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hami_cache.node.nvml_reasons import (
    FUNCTION_NOT_FOUND,
    INSUFFICIENT_SIZE,
    SUCCESS,
    UNKNOWN,
)

MAX_ROWS: Final = 4096
"""Rows of one list, at most: more is INSUFFICIENT_SIZE instead of ever larger buffers."""

FILL_ATTEMPTS: Final = 3
"""How often a list that grows under our hands is asked for again."""

NOT_AVAILABLE: Final = 2**64 - 1
"""How NVML says that it has no number of bytes (of a process under WSL, for one)."""

# nvmlProcessInfo_t (pid, bytes, GPU instance, compute instance), its first version, and
# nvmlProcessUtilizationSample_t (pid, microseconds, SM, memory, encoder, decoder percent), of
# nvml.h.
_PROCESS_ROW = struct.Struct("@IQII")
_PROCESS_ROW_V1 = struct.Struct("@IQ")
_SAMPLE_ROW = struct.Struct("@IQIIII")


class DriverCallError(Exception):
    """A call that NVML answered with an error.

    Attributes:
        call: the function, as nvidia-ml-py names it.
        code: NVML's return code.
    """

    def __init__(self, call: str, code: int, answer: str) -> None:
        super().__init__(f"{call} answered {answer} ({code})")
        self.call = call
        self.code = code


class Memory(NamedTuple):
    """Memory of a card or a partition, in bytes."""

    total: int
    used: int


@dataclass(frozen=True, slots=True)
class Listing:
    """What a list call came to.

    Attributes:
        call: the function asked.
        code: NVML's last return code; INSUFFICIENT_SIZE also where the list outgrew our bounds.
        rows: the columns of each row in the driver's order; empty unless `code` is success.
    """

    call: str
    code: int
    rows: tuple[tuple[int, ...], ...] = ()


class Driver:
    """NVML, opened and closed. For one thread at a time.

    Args:
        guard: asked before every call into the library but the closing one; raises to forbid the
            call.
    """

    def __init__(self, guard: Callable[[], None]) -> None:
        self._guard = guard
        self._pynvml: Any = None

    @property
    def is_open(self) -> bool:
        """Whether we hold NVML initialised."""
        return self._pynvml is not None

    def open(self) -> None:
        """Load the library if that was not done, and initialise it.

        Raises:
            DriverCallError: no library, no driver, or whatever else nvmlInit answers.
        """
        self._guard()
        import pynvml

        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise DriverCallError("nvmlInit", error.value, _name(error)) from None
        self._pynvml = pynvml

    def close(self) -> None:
        """Shut NVML down, which gives its file descriptors back; that it fails changes nothing."""
        pynvml, self._pynvml = self._pynvml, None
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            return

    def device_count(self) -> int:
        """Number of cards, those that do not answer included."""
        return int(self._call("nvmlDeviceGetCount"))

    def handle(self, index: int) -> object:
        """The handle of a card."""
        return self._call("nvmlDeviceGetHandleByIndex", index)

    def uuid(self, handle: object) -> str:
        """UUID of a card or partition."""
        return str(self._call("nvmlDeviceGetUUID", handle))

    def name(self, handle: object) -> str:
        """Product name, as NVML spells it."""
        return str(self._call("nvmlDeviceGetName", handle))

    def memory(self, handle: object) -> Memory:
        """Memory by version 1 of the call: `used` includes what the driver keeps for itself."""
        info = self._call("nvmlDeviceGetMemoryInfo", handle)
        return Memory(info.total, info.used)

    def memory_v2(self, handle: object) -> Memory:
        """Memory by version 2 of the call, which counts the driver's reserve apart."""
        info = self._call("nvmlDeviceGetMemoryInfo", handle, self._pynvml.nvmlMemory_v2)
        return Memory(info.total, info.used)

    def utilization(self, handle: object) -> tuple[int, int]:
        """Utilization of the GPU and of its memory controller, percent."""
        rates = self._call("nvmlDeviceGetUtilizationRates", handle)
        return rates.gpu, rates.memory

    def temperature(self, handle: object) -> int:
        """Temperature of the GPU, degrees Celsius."""
        gpu_sensor = self._pynvml.NVML_TEMPERATURE_GPU
        return int(self._call("nvmlDeviceGetTemperature", handle, gpu_sensor))

    def power(self, handle: object) -> int:
        """Power drawn by the board, milliwatts."""
        return int(self._call("nvmlDeviceGetPowerUsage", handle))

    def ecc_errors(self, handle: object) -> int:
        """Uncorrected memory errors since the driver was loaded."""
        nvml = self._pynvml
        kinds = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        return int(self._call("nvmlDeviceGetTotalEccErrors", handle, *kinds))

    def mig_enabled(self, handle: object) -> bool:
        """Whether the card is in MIG mode now, whatever is pending."""
        current, _ = self._call("nvmlDeviceGetMigMode", handle)
        return bool(current == self._pynvml.NVML_DEVICE_MIG_ENABLE)

    def mig_capacity(self, handle: object) -> int:
        """How many partition indexes the card has, used or not."""
        return int(self._call("nvmlDeviceGetMaxMigDeviceCount", handle))

    def mig_handle(self, handle: object, index: int) -> object | None:
        """The handle of a partition, None where the driver answers with none."""
        return self._call("nvmlDeviceGetMigDeviceHandleByIndex", handle, index) or None

    def compute_processes(self, handle: object) -> Listing:
        """The compute processes of a card: pid, bytes (all bits set for no number), and more."""
        call, layout = self._process_list()
        return self._list(call, layout, lambda ask, buffer, count: ask(handle, count, buffer))

    def utilization_samples(self, handle: object) -> Listing:
        """All utilization samples kept of a card: pid, time stamp, SM percent, and more."""
        since = ctypes.c_ulonglong(0)
        call = "nvmlDeviceGetProcessUtilization"
        return self._list(
            call, _SAMPLE_ROW, lambda ask, buffer, count: ask(handle, buffer, count, since)
        )

    def _call(self, call: str, *arguments: object) -> Any:
        self._guard()
        try:
            return getattr(self._pynvml, call)(*arguments)
        except self._pynvml.NVMLError as error:
            raise DriverCallError(call, error.value, _name(error)) from None
        except UnicodeDecodeError:
            raise DriverCallError(call, UNKNOWN, "bytes that are no text") from None

    def _function(self, call: str) -> Any:
        return getattr(self._pynvml.nvmlLib, call, None)

    def _process_list(self) -> tuple[str, struct.Struct]:
        """The newest process list whose rows we can read.

        Drivers of early R535 write 32-byte rows in version 3, which would overrun our buffer; they
        are known by what they have and lack (as nvitop found out).
        """
        base = "nvmlDeviceGetComputeRunningProcesses"
        wide_rows = self._function("nvmlDeviceGetConfComputeMemSizeInfo") and not self._function(
            "nvmlDeviceGetRunningProcessDetailList"
        )
        if self._function(f"{base}_v3") and not wide_rows:
            return f"{base}_v3", _PROCESS_ROW
        if self._function(f"{base}_v2"):
            return f"{base}_v2", _PROCESS_ROW
        return base, _PROCESS_ROW_V1

    def _list(
        self, call: str, layout: struct.Struct, ask: Callable[[Any, Any, Any], int]
    ) -> Listing:
        """Count, then fill: ask with no room for their number, then with room for as many."""
        function = self._function(call)
        if function is None:
            return Listing(call, FUNCTION_NOT_FOUND)
        code, room, _ = self._ask(function, 0, layout, ask)
        if code not in (SUCCESS, INSUFFICIENT_SIZE):
            return Listing(call, code)
        if room == 0:
            return Listing(call, SUCCESS)
        for _ in range(FILL_ATTEMPTS):
            if room > MAX_ROWS:
                break
            code, count, content = self._ask(function, room, layout, ask)
            if code == SUCCESS:
                filled = content[: min(count, room) * layout.size]
                return Listing(call, code, tuple(layout.iter_unpack(filled)))
            if code != INSUFFICIENT_SIZE:
                return Listing(call, code)
            room = max(count, room + 1)
        return Listing(call, INSUFFICIENT_SIZE)

    def _ask(
        self, function: Any, room: int, layout: struct.Struct, ask: Callable[[Any, Any, Any], int]
    ) -> tuple[int, int, bytes]:
        """One call of the protocol: the return code, the count it left behind, and the buffer."""
        self._guard()
        buffer = ctypes.create_string_buffer(room * layout.size) if room else None
        count = ctypes.c_uint(room)
        code = ask(function, buffer, ctypes.byref(count))
        return code, count.value, buffer.raw if buffer else b""


def _name(error: Exception) -> str:
    """What nvidia-ml-py calls the error. Its text can be a call into the library: not asked for."""
    return type(error).__name__.removeprefix("NVMLError_")
