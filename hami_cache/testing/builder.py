"""Building cache files of any layout, as their real writer leaves them or broken on purpose.

Everything goes through a layout's logical names, so a new layout file can be built at once. What is
described (`Device`, `Process`, the header's keywords) is written as far as the layout has room for
it, as a libvgpu of that layout would; what is `set` by its path must exist.

Example:
    >>> from hami_cache.testing import CacheBuilder, Memory
    >>> builder = CacheBuilder("v1.2")
    >>> builder.process(71, memory=[Memory(context=300 << 20, data=1 << 30)], sm_util=[35])
    >>> builder.set("procs[0].seqlock", 7)  # its writer died inside an update
    >>> builder.write("/tmp/hook/containers/<uid>_main/x.cache")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from hami_cache.errors import FieldError
from hami_cache.spec import registry
from hami_cache.spec.layout import Layout
from hami_cache.testing.contents import GIB, OPENED_AT, Device, Memory, Process, RegionImage
from hami_cache.testing.encode import Value, encode

_BLOCK = 4096


class CacheBuilder:
    """Describes one cache file; `build` and `write` make it, as often as asked.

    Without any `device` the file has one, with the defaults of `Device`.

    Args:
        layout: a layout or its name.
        priority: of the container's task.
        utilization_switch, recent_kernel: as the writer initialises them.
        last_kernel_time: seconds since 1970.

    Raises:
        LayoutError: no layout has that name.
    """

    def __init__(
        self,
        layout: Layout | str,
        *,
        priority: int = 1,
        utilization_switch: int = 1,
        recent_kernel: int = 2,
        last_kernel_time: int = OPENED_AT,
    ) -> None:
        self.layout = registry.layout(layout) if isinstance(layout, str) else layout
        self._devices: list[Device] = []
        self._processes: dict[int, Process] = {}
        self._header = {
            "priority": priority,
            "utilization_switch": utilization_switch,
            "recent_kernel": recent_kernel,
            "last_kernel_time": last_kernel_time,
        }
        self._overrides: list[tuple[int, bytes]] = []
        self._size: int | None = None

    def device(self, uuid: str | None = None, limit: int = 16 * GIB, sm_limit: int = 100) -> Self:
        """Add a device; see `Device`."""
        self._devices.append(Device(uuid, limit, sm_limit))
        return self

    def process(
        self,
        pid: int,
        hostpid: int | None = None,
        status: int = 1,
        *,
        memory: Sequence[Memory | int] | Mapping[int, Memory | int] = (),
        sm_util: Sequence[int] = (),
        monitorused: Sequence[int] = (),
        seqlock: int | None = None,
        index: int | None = None,
    ) -> Self:
        """Put a process (see `Process`) into a slot: `index`, or the first behind all others."""
        process = Process(pid, hostpid, status, memory, sm_util, monitorused, seqlock)
        return self.add(process, index)

    def add(self, process: Process, index: int | None = None) -> Self:
        """`process`, already made."""
        if index is None:
            index = max(self._processes, default=-1) + 1
        self._processes[index] = process
        return self

    def set(self, path: str, value: Value | Sequence[Value]) -> Self:
        """Override a field such as ``procs[3].used[0].total``, ``limit`` or ``sem``.

        Args:
            path: a C or logical name; an array without an index takes a list.
            value: see `encode.encode`.

        Raises:
            FieldError: the layout has no such field, or the value does not fit into its bytes.
        """
        ref = self.layout.field(path)
        return self.patch(ref.offset, encode(ref, value))

    def patch(self, offset: int, raw: bytes) -> Self:
        """Overwrite bytes anywhere in the file, over everything described or set so far.

        Args:
            offset: bytes from the file's start.
            raw: the new bytes; they may reach beyond the region, into the file's tail.
        """
        if offset < 0:
            raise FieldError(f"{offset} lies before the file", offset=offset)
        self._overrides.append((offset, raw))
        return self

    def not_initialised(self) -> Self:
        """Leave the magic number at 0: the writer has sized the file, but not finished."""
        return self.set(self.layout.identity.magic_field, 0)

    def resize(self, size: int) -> Self:
        """Cut or extend the file to this many bytes, last of all."""
        self._size = size
        return self

    def build(self) -> bytes:
        """The file's bytes: `layout.sizeof` plus the tail its writer leaves, or the size asked for.

        Raises:
            FieldError: a described value does not fit, or a device or slot lies beyond its array.
        """
        image = RegionImage(self.layout)
        image.header(self._devices or [Device()], self._header)
        image.put("proc_num", max(self._processes, default=-1) + 1)
        for index, process in self._processes.items():
            image.process(f"procs[{index}]", process)
        for offset, raw in self._overrides:
            image.patch(offset, raw)
        return image.sized(self._size)

    def write(self, path: Path | str) -> Path:
        """Write the file, sparse as the real one is; its folder is made if need be.

        Raises:
            FieldError: as `build`.
            OSError: it cannot be written.
        """
        data = self.build()
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            file.truncate(len(data))
            for start in range(0, len(data), _BLOCK):
                block = data[start : start + _BLOCK]
                if any(block):
                    file.seek(start)
                    file.write(block)
        return target


def build_cache(
    layout: Layout | str,
    *,
    processes: Sequence[Process] = (),
    devices: Sequence[Device] = (),
    fields: Mapping[str, Value | Sequence[Value]] | None = None,
    size: int | None = None,
) -> bytes:
    """One cache file's bytes in one call.

    Args:
        layout: a layout or its name.
        processes: from slot 0 on.
        devices: none is one with the defaults.
        fields: overrides by path, as `CacheBuilder.set` takes them.
        size: cut or extend to this many bytes.

    Raises:
        LayoutError: no layout has that name.
        FieldError: a field does not exist or a value does not fit.
    """
    builder = CacheBuilder(layout)
    for device in devices:
        builder.device(device.uuid, device.limit, device.sm_limit)
    for process in processes:
        builder.add(process)
    for path, value in (fields or {}).items():
        builder.set(path, value)
    return (builder if size is None else builder.resize(size)).build()
