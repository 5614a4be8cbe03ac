"""The native reader, behind plain Python: the only module that knows cffi.

Everything it is given is a mapping made here and a layout's offset table; the C side (native/)
holds the protocol. Calls release the GIL, and many threads may read at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from struct import Struct
from typing import Any, Final, Generic, TypeVar

import hami_cache._reader as _reader
from hami_cache.errors import LayoutError, SourceError
from hami_cache.spec.layout import Layout
from hami_cache.spec.table import OffsetTable, offset_table

ffi: Any = _reader.ffi
lib: Any = _reader.lib

Bytes = TypeVar("Bytes", bytes, memoryview)

SLOT_BUDGET_NS: Final = 1_000_000
"""How long one container's slots may be waited for, by default: 1 ms."""

CALL_BUDGET_NS: Final = 100_000_000
"""How long a whole call may wait, however many containers it has: shared out evenly."""

FIGURES: Final = (
    "total", "context", "module", "data", "sm_util", "limit", "sm_limit",
)  # fmt: skip
"""Names of the columns of a figures array: bytes, and percent for ``sm_util`` and ``sm_limit``."""

FLAG_UNDERFLOW: Final = 1
FLAG_PART_UNDERFLOW: Final = 2
FLAG_UNSTABLE: Final = 4
FLAG_STUCK: Final = 8
FLAG_UNBALANCED: Final = 16
FLAG_OVERFLOW: Final = 32
FLAG_SM_OVERFLOW: Final = 64

STATUS_READ: Final = 0
STATUS_GONE: Final = 1
STATUS_NOT_INITIALISED: Final = 2
STATUS_UNSETTLED: Final = 3

VERDICTS: Final = ("unread", "stable", "torn", "stuck", "unprotected", "unbalanced")
"""What the verdict bytes of `copy` mean; see `model.Consistency`."""

REPORT_FIELDS: Final = (
    ("status", "i"), ("proc_num", "i"), ("device_num", "Q"), ("utilization_switch", "i"),
    ("recent_kernel", "i"), ("priority", "i"), ("running", "I"), ("suspended", "I"),
    ("odd_status", "I"), ("exited", "I"), ("skipped", "I"), ("duplicates", "I"),
    ("hostpid_unknown", "I"), ("stable", "I"), ("torn", "I"), ("stuck", "I"), ("unprotected", "I"),
    ("unbalanced", "I"), ("watched", "I"), ("retries", "I"), ("locked", "I"),
    ("last_kernel_time", "Q"),
)  # fmt: skip
"""What a pass found in one container (`hc_report` in native/abi.h): names and `struct` codes."""

_REPORT: Final = Struct("@" + "".join(code for _, code in REPORT_FIELDS))
_REPORT_NAMES: Final = tuple(name for name, _ in REPORT_FIELDS)

assert _REPORT.size == ffi.sizeof("hc_report")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long reading may wait for writers, in ns; see SLOT_BUDGET_NS and CALL_BUDGET_NS."""

    slot_ns: int = SLOT_BUDGET_NS
    call_ns: int = CALL_BUDGET_NS


class Places:
    """Offsets of aligned 32-bit words, made once for many readings.

    Args:
        offsets: in bytes from the start of the file.
    """

    def __init__(self, *offsets: int) -> None:
        self.offsets: Any = ffi.new("uint64_t[]", offsets)
        self.count = len(offsets)


class Mapping:
    """A file mapped by the native side. Python never touches the memory itself: it could vanish.

    Attributes:
        base: the memory's address, or None after `close`. It is unmapped once nobody holds it any
            more: a plan that was made before keeps it, so that no call can meet a hole.
    """

    def __init__(self, fd: int, length: int, *, writable: bool = False) -> None:
        base = lib.hc_map(fd, length, writable)
        if base == ffi.NULL:
            raise SourceError("cannot map the file")
        self.base: Any = ffi.gc(base, partial(_unmap, length), length)
        self.length = length

    def close(self) -> None:
        """Let go of the memory; further reading through this mapping is an error of the caller."""
        self.base = None

    def load_words(self, places: Places) -> list[int] | None:
        """Aligned signed 32-bit values; None when the file is gone or a place is outside."""
        out = ffi.new("int32_t[]", places.count)
        if not lib.hc_load32_many(self.base, self.length, places.offsets, places.count, out):
            return None
        values: list[int] = ffi.unpack(out, places.count)
        return values

    def read_bytes(self, offset: int, count: int) -> bytes | None:
        """Bytes that nothing protects, such as uuids; None when the file is gone or too short."""
        out = bytearray(count)
        place = ffi.from_buffer("uint8_t[]", out, require_writable=True)
        if not lib.hc_read_bytes(self.base, self.length, offset, count, place):
            return None
        return bytes(out)

    def store32(self, offset: int, value: int) -> bool:
        """Store an aligned signed 32-bit value atomically; False when the file is gone."""
        return bool(lib.hc_store32(self.base, self.length, offset, value))


def _unmap(length: int, base: Any) -> None:
    lib.hc_unmap(base, length)


@lru_cache(maxsize=64)
def native_table(layout: Layout) -> Any:
    """A layout's offset table as the C struct; whoever hands its address on keeps it.

    Raises:
        LayoutError: it has more devices or slots than the reader can take, or a field where no
            single aligned load can reach it.
    """
    offsets = offset_table(layout)
    table = ffi.new("hc_layout *", {f.name: getattr(offsets, f.name) for f in fields(OffsetTable)})
    fault = lib.hc_layout_fault(table)
    if fault != ffi.NULL:
        name = ffi.string(fault).decode()
        value = getattr(offsets, name, "misplaced")
        raise LayoutError(
            f"the native reader cannot use {layout.name}: {name} is {value}",
            path=layout.path,
            hint="at most 64 devices and 4096 slots, every number aligned, all inside the region",
        )
    return table


DEFAULT_BOUNDS: Final = Bounds()


@dataclass(frozen=True, slots=True)
class Target:
    """One container for the native side; `fd` is asked whether the file is still there.

    `skip` has a host pid for each slot (0 for none): a slot that has it is left out of the sums.
    """

    mapping: Mapping
    layout: Layout
    fd: int = -1
    skip: array[int] | None = None


def one_heap() -> None:
    """Let all threads of this process allocate from one heap: it stays smaller, and flat."""
    lib.hc_one_heap()


@dataclass(frozen=True, slots=True)
class Lists:
    """A pass as plain lists: see `NativePass.lists`."""

    values: list[list[list[int]]]
    flags: list[list[int]]
    reports: list[dict[str, int]]


class NativePass:
    """A fixed set of containers, laid out once for many native calls; needs no numpy.

    Args:
        targets: the containers, with open mappings; closing one later does not hurt the pass.
        devices: rows for each container; further devices are left out. None is as many as the
            largest layout has.
        out: a writable buffer of 64-bit numbers to fill instead of a new one.

    Attributes:
        devices: rows for each container.
        values, flags, reports: the memory that `run` fills: uint64 (containers, devices,
            len(FIGURES)), uint32 (containers, devices), and one `REPORT_FIELDS` a container.

    Raises:
        ValueError: a mapping is closed, or a `skip` is too short.
        LayoutError: the native reader cannot use a layout.
    """

    def __init__(
        self, targets: Sequence[Target], devices: int | None = None, out: object = None
    ) -> None:
        if devices is None:
            devices = max((native_table(t.layout).device_count for t in targets), default=0)
        self.devices = devices
        self._count = count = len(targets)
        self._sources = ffi.new("hc_source[]", count)
        self._kept = [
            _fill(source, target) for source, target in zip(self._sources, targets, strict=True)
        ]
        self.values = bytearray(8 * count * devices * len(FIGURES)) if out is None else out
        self.flags = bytearray(4 * count * devices)
        self.reports = bytearray(_REPORT.size * count)
        self._values = ffi.from_buffer("uint64_t[]", self.values, require_writable=True)
        self._flags = ffi.from_buffer("uint32_t[]", self.flags, require_writable=True)
        self._reports = ffi.from_buffer("hc_report[]", self.reports, require_writable=True)

    def run(self, bounds: Bounds = DEFAULT_BOUNDS) -> None:
        """One pass over all containers, into the same memory every time."""
        lib.hc_figures(
            self._sources,
            self._count,
            (bounds.slot_ns, bounds.call_ns),
            self.devices,
            self._values,
            self._flags,
            self._reports,
        )

    def lists(self) -> Lists:
        """The last pass: values by container, device and figure; flags; reports by name."""
        width, devices = len(FIGURES), self.devices
        numbers = ffi.unpack(self._values, self._count * devices * width)
        flags = ffi.unpack(self._flags, self._count * devices)
        rows = [numbers[at : at + width] for at in range(0, len(numbers), width)]
        starts = range(0, self._count * devices, devices or 1)
        return Lists(
            values=[rows[at : at + devices] for at in starts],
            flags=[flags[at : at + devices] for at in starts],
            reports=[
                dict(zip(_REPORT_NAMES, report, strict=True))
                for report in _REPORT.iter_unpack(self.reports)
            ],
        )


def _fill(source: Any, target: Target) -> tuple[Any, ...]:
    """Point an ``hc_source`` at a target; the caller keeps the answer as long as it is used."""
    base, table = target.mapping.base, native_table(target.layout)
    if base is None:
        raise ValueError("the mapping is closed")
    skip = ffi.NULL
    if target.skip is not None:
        if len(target.skip) < table.slot_count:
            raise ValueError(f"skip needs {table.slot_count} pids, not {len(target.skip)}")
        skip = ffi.from_buffer("int32_t[]", target.skip)
    source.base = ffi.cast("const uint8_t *", base)
    source.length = target.mapping.length
    source.layout = table
    source.skip = skip
    source.fd = target.fd
    return base, table, skip


def processes(target: Target) -> list[tuple[int, int, int]] | None:
    """(pid, hostpid, status) of every slot below proc_num; None when the file is gone."""
    source = ffi.new("hc_source *")
    kept = _fill(source, target)
    room = source.layout.slot_count
    out = ffi.new("int32_t[]", 3 * room)
    count = lib.hc_processes(source, out, room)
    del kept
    if count < 0:
        return None
    values = ffi.unpack(out, 3 * count)
    return list(zip(values[0::3], values[1::3], values[2::3], strict=True))


@dataclass(frozen=True, slots=True)
class RegionCopy(Generic[Bytes]):
    """A private, consistent copy of a region, with a verdict for every slot."""

    data: Bytes
    verdicts: bytes
    status: int
    retries: int


def copy(target: Target, bounds: Bounds) -> RegionCopy[bytes]:
    """Copy a region slot by slot under the seqlock protocol."""
    source = ffi.new("hc_source *")
    kept = _fill(source, target)
    data = bytearray(target.layout.sizeof)
    verdicts = bytearray(source.layout.slot_count)
    report = ffi.new("hc_report *")
    lib.hc_copy(
        source,
        (bounds.slot_ns, bounds.call_ns),
        ffi.from_buffer("uint8_t[]", data, require_writable=True),
        ffi.from_buffer("uint8_t[]", verdicts, require_writable=True),
        report,
    )
    del kept
    return RegionCopy(bytes(data), bytes(verdicts), report.status, report.retries)
