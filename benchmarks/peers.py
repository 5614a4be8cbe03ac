"""Other ways to read the same figures: what people would write with the tools they have.

Every peer answers the same question about one container: for each device its uuid, limit, and the
sums of total, context, module, data and SM over the slots that count, as Python objects ("rows").
"""

from __future__ import annotations

import ctypes
import mmap
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.caches import LAYOUT, Case
from hami_cache.spec import registry
from hami_cache.spec.layout import Layout, Struct
from hami_cache.spec.table import offset_table

Row = tuple[str, int, int, int, int, int, int]
"""uuid, limit, total, context, module, data, sm."""

PARTS = ("total", "context", "module", "data")


def layout() -> Layout:
    """The layout that all cases have."""
    return registry.layout(LAYOUT)


def mapped(case: Case) -> mmap.mmap:
    """The file, mapped and warm."""
    with case.path.open("rb") as file:
        view = mmap.mmap(file.fileno(), layout().sizeof, prot=mmap.PROT_READ)
    bytes(view)
    return view


def numpy_rows(case: Case) -> Callable[[], list[Row]]:
    """A structured view over the mapping, summed with numpy."""
    view = np.frombuffer(mapped(case), layout().dtype, 1)[0]

    def read() -> list[Row]:
        count = int(view["proc_num"])
        procs = view["procs"][:count]
        live = procs["status"] != 0
        devices = int(view["device_num"])
        used, util = procs["used"][live], procs["device_util"][live]
        sums = [used[name][:, :devices].sum(axis=0).tolist()
                for name in ("total", "context_size", "module_size", "data_size")]  # fmt: skip
        sm = util["sm_util"][:, :devices].sum(axis=0).tolist()
        return [
            (
                bytes(view["uuids"][d]).partition(b"\0")[0].decode(),
                int(view["limit"][d]),
                *(column[d] for column in sums),
                sm[d],
            )
            for d in range(devices)
        ]

    return read


def ctypes_rows(case: Case) -> Callable[[], list[Row]]:
    """A ctypes structure over the mapping, one loop per figure."""
    region_type = _ctypes_struct(layout(), layout().region, {})
    with case.path.open("rb") as file:
        view = mmap.mmap(file.fileno(), layout().sizeof, access=mmap.ACCESS_COPY)
    region: Any = region_type.from_buffer(view)

    def total(device: int, name: str) -> int:
        return sum(
            getattr(region.procs[i].used[device], name)
            for i in range(region.proc_num)
            if region.procs[i].status != 0
        )

    def read() -> list[Row]:
        return [
            (
                bytes(region.uuids[d]).partition(b"\0")[0].decode(),
                region.limit[d],
                *(total(d, n) for n in ("total", "context_size", "module_size", "data_size")),
                sum(
                    region.procs[i].device_util[d].sm_util
                    for i in range(region.proc_num)
                    if region.procs[i].status != 0
                ),
            )
            for d in range(region.device_num)
        ]

    return read


def _ctypes_struct(lo: Layout, struct: Struct, known: dict[str, Any]) -> Any:
    if struct.name not in known:
        fields = []
        for field in struct.fields:
            element: Any
            if field.ctype.kind == "struct":
                element = _ctypes_struct(lo, lo.struct_of(field), known)
            elif field.ctype.kind in ("signed", "unsigned"):
                sign = "" if field.ctype.kind == "signed" else "u"
                element = getattr(ctypes, f"c_{sign}int{field.ctype.size * 8}")
            else:
                element = ctypes.c_ubyte * field.ctype.size
            fields.append((field.name, element * field.count if field.array else element))
        # Semaphores are bytes here; what follows them is aligned by its own type.
        known[struct.name] = type(struct.name, (ctypes.Structure,), {"_fields_": fields})
    return known[struct.name]


def construct_rows(case: Case) -> Callable[[], list[Row]]:
    """construct parses the whole region each time."""
    region = layout().construct
    content = case.path.read_bytes()
    return lambda: _parsed_rows(region.parse(content))


def dissect_rows(case: Case) -> Callable[[], list[Row]]:
    """dissect.cstruct, compiled, parses the whole region each time."""
    from dissect.cstruct import cstruct

    parser = cstruct(endian="<", pointer="uint64")
    parser.load(_plain_c(layout()), compiled=True)
    content = case.path.read_bytes()
    return lambda: _parsed_rows(parser.shared_region_t(content))


def _parsed_rows(region: Any) -> list[Row]:
    live = [slot for slot in region.procs[: region.proc_num] if slot.status != 0]
    return [
        (
            bytes(region.uuids[d]).partition(b"\0")[0].decode(),
            region.limit[d],
            sum(slot.used[d].total for slot in live),
            sum(slot.used[d].context_size for slot in live),
            sum(slot.used[d].module_size for slot in live),
            sum(slot.used[d].data_size for slot in live),
            sum(slot.device_util[d].sm_util for slot in live),
        )
        for d in range(region.device_num)
    ]


def _plain_c(lo: Layout) -> str:
    """The structs with every gap written out: dissect.cstruct does not align."""
    lines = []
    for struct in lo.structs.values():
        lines.append("typedef struct {")
        end = 0
        for field in struct.fields:
            if field.offset > end:
                lines.append(f"  uint8 gap_{end}[{field.offset - end}];")
            bound = f"[{field.count}]" if field.array else ""
            if field.ctype.kind == "struct":
                lines.append(f"  {field.ctype.name} {field.name}{bound};")
            elif field.ctype.kind in ("signed", "unsigned"):
                sign = "" if field.ctype.kind == "signed" else "u"
                lines.append(f"  {sign}int{field.ctype.size * 8} {field.name}{bound};")
            else:
                lines.append(f"  uint8 {field.name}{bound}[{field.ctype.size}];")
            end = field.end
        if struct.sizeof > end:
            lines.append(f"  uint8 gap_{end}[{struct.sizeof - end}];")
        lines.append(f"}} {struct.name};")
    return "\n".join(lines)


class CLimit:
    """The limit in C: `climit.c`, compiled here."""

    def __init__(self, folder: Path) -> None:
        library = folder / "climit.so"
        source = Path(__file__).with_name("climit.c")
        command = ["cc", "-std=c11", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)]
        subprocess.run(command, check=True)
        self._library = ctypes.CDLL(str(library))
        table = offset_table(layout())
        names = ("procs", "slot_size", "status", "seqlock", "used", "used_size", "total", "context",
                 "module", "data", "sm", "util_size")  # fmt: skip
        self._table = (ctypes.c_int64 * len(names))(*(getattr(table, name) for name in names))

    def many(self, cases: Sequence[Case], *, seqlock: bool) -> Callable[[], Any]:
        """One call over many containers, into one buffer of (containers, devices, 5)."""
        views = [np.frombuffer(mapped(case), np.uint8) for case in cases]
        pointers = (ctypes.c_void_p * len(views))(*(view.ctypes.data for view in views))
        devices, slots = cases[0].devices, cases[0].slots
        sums = np.zeros((len(cases), devices, 5), np.uint64)
        target = sums.ctypes.data_as(ctypes.c_void_p)
        call = self._library.climit_many

        def read(_views: object = views) -> Any:
            call(pointers, len(pointers), self._table, slots, devices, int(seqlock), target)
            return sums

        return read
