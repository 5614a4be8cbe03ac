"""What a cache can hold, and a region's bytes being filled with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hami_cache.model import Semaphore
from hami_cache.spec.layout import Layout
from hami_cache.testing.encode import Value, encode

GIB = 1 << 30

FREE = Semaphore(value=1, nwaiters=0, private=128)
"""A semaphore that nobody holds; 128 is glibc's mark for one shared between processes."""

OPENED_AT = 1_700_000_000
"""`last_kernel_time` of a built file in seconds since 1970: fixed, so that files compare equal."""

HOSTPID_ABOVE = 100_000
"""A host pid that nobody gave is this much above the pid in the container."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device of the container.

    Attributes:
        uuid: None makes one up from the device's index, with the length of a real one.
        limit: bytes; 0 is "no limit".
        sm_limit: percent.
    """

    uuid: str | None = None
    limit: int = 16 * GIB
    sm_limit: int = 100


@dataclass(frozen=True, slots=True)
class Memory:
    """What one process uses on one device, in bytes. `total` None is the sum of the three parts."""

    context: int = 0
    module: int = 0
    data: int = 0
    total: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Process:
    """One process slot.

    Attributes:
        pid: in the container; 0 after a clean exit.
        hostpid: on the host; 0 where the writer could not detect it, None makes one up.
        status: 1 running, 2 suspended, 0 exited.
        memory: by device; a plain number is `data`. A list starts with device 0.
        sm_util, monitorused: by device, in percent and bytes.
        seqlock: None is two for every part that is not 0, as one call each would leave it.
    """

    pid: int
    hostpid: int | None = None
    status: int = 1
    memory: Sequence[Memory | int] | Mapping[int, Memory | int] = ()
    sm_util: Sequence[int] = ()
    monitorused: Sequence[int] = ()
    seqlock: int | None = None

    def used(self) -> dict[int, Memory]:
        """The memory by device index."""
        memory = self.memory
        pairs = memory.items() if isinstance(memory, Mapping) else enumerate(memory)
        return {d: Memory(data=m) if isinstance(m, int) else m for d, m in pairs}


class RegionImage:
    """A region being filled."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._data = bytearray(layout.file_sizes[-1])

    def put(self, path: str, value: Value | Sequence[Value]) -> None:
        """Write a field, if the layout has it."""
        if self._layout.has(_without_indices(path)):
            ref = self._layout.field(path)
            self.patch(ref.offset, encode(ref, value))

    def patch(self, offset: int, raw: bytes) -> None:
        """Write bytes, growing the image if they lie beyond it."""
        missing = offset + len(raw) - len(self._data)
        self._data.extend(bytes(max(missing, 0)))
        self._data[offset : offset + len(raw)] = raw

    def header(self, devices: Sequence[Device], values: Mapping[str, int]) -> None:
        """Everything but the slots and proc_num."""
        identity = self._layout.identity
        self.put(identity.magic_field, identity.magic)
        if identity.version is not None:
            self.put("major_version", identity.version.major)
            self.put("minor_version", identity.version.minor)
        for field in self._layout.region.fields:
            if field.ctype.kind == "semaphore":
                self.put(field.name, FREE)
        for path, value in values.items():
            self.put(path, value)
        self.put("device_num", len(devices))
        # The writer fills sm_limit for every device there could be, with the first one's default.
        self.put("sm_limit", [devices[0].sm_limit] * self._layout.field("sm_limit").count)
        for index, device in enumerate(devices):
            uuid = device.uuid if device.uuid is not None else made_up_uuid(index)
            self.put(f"uuids[{index}]", uuid)
            self.put(f"limit[{index}]", device.limit)
            self.put(f"sm_limit[{index}]", device.sm_limit)

    def process(self, slot: str, process: Process) -> None:
        """One slot."""
        self.put(f"{slot}.pid", process.pid)
        made_up = HOSTPID_ABOVE + process.pid
        self.put(f"{slot}.hostpid", made_up if process.hostpid is None else process.hostpid)
        self.put(f"{slot}.status", process.status)
        changes = 0
        for device, memory in process.used().items():
            parts = {name: getattr(memory, name) for name in ("context", "module", "data")}
            changes += sum(value != 0 for value in parts.values())
            total = sum(parts.values()) % (1 << 64) if memory.total is None else memory.total
            for name, value in (*parts.items(), ("offset", memory.offset), ("total", total)):
                self.put(f"{slot}.used[{device}].{name}", value)
        self.put(f"{slot}.seqlock", 2 * changes if process.seqlock is None else process.seqlock)
        for device, percent in enumerate(process.sm_util):
            self.put(f"{slot}.device_util[{device}].sm", percent)
        self.put(f"{slot}.monitorused", process.monitorused)

    def sized(self, size: int | None) -> bytes:
        """The bytes, cut or extended."""
        if size is None:
            return bytes(self._data)
        return bytes(self._data[:size]).ljust(size, b"\0")


def made_up_uuid(index: int) -> str:
    """The uuid of a device that was given none: stable, and as long as a real one."""
    return f"GPU-00000000-0000-4000-8000-{index:012d}"


def _without_indices(path: str) -> str:
    return ".".join(part.partition("[")[0] for part in path.split("."))
