"""What a layout must have so that its bytes can be identified and read.

`specfile.py` sees that a file is well-formed and that C would place its fields so; this sees that
the fields which readers load by their logical names are there, of the right kind and width, and
that every probe looks at something it can understand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from hami_cache.spec.layout import Element, Kind, Layout, Probe
from hami_cache.spec.probes import slot_paths
from hami_cache.spec.toml_table import shown

MAX_SLOTS = 4096
MAX_DEVICES = 64
"""What native/reader.h has room for; every known layout has 1024 and 16."""

MAX_MAGIC = (1 << 31) - 1

Problem = tuple[str, str]
"""A key of the layout file, and what is wrong with it."""

Shape = Literal["one", "devices", "slots"]
NUMBERS: tuple[Kind, ...] = ("signed", "unsigned")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What readers expect at a logical path: kinds, bytes an element, how many, whether at all."""

    kinds: tuple[Kind, ...]
    width: int | None = None
    shape: Shape = "one"
    optional: bool = False


_WORD, _HALF = _Wanted(NUMBERS, 8), _Wanted(NUMBERS, 4)
_MAYBE_WORD, _MAYBE_HALF = _Wanted(NUMBERS, 8, optional=True), _Wanted(NUMBERS, 4, optional=True)

FIELDS: Mapping[str, _Wanted] = {
    "initialized_flag": _HALF,
    "major_version": _MAYBE_HALF,
    "minor_version": _MAYBE_HALF,
    "sm_init_flag": _MAYBE_HALF,
    "owner_pid": _MAYBE_WORD,
    "sem": _Wanted(("semaphore",), optional=True),
    "sem_postinit": _Wanted(("semaphore",), optional=True),
    "device_num": _WORD,
    "uuids": _Wanted(("text",), shape="devices"),
    "limit": _Wanted(NUMBERS, 8, "devices"),
    "sm_limit": _Wanted(NUMBERS, 8, "devices"),
    "procs": _Wanted(("struct",), shape="slots"),
    "procs.pid": _HALF,
    "procs.hostpid": _HALF,
    "procs.status": _HALF,
    "procs.seqlock": _MAYBE_WORD,
    "procs.used": _Wanted(("struct",), shape="devices"),
    "procs.used.context": _WORD,
    "procs.used.module": _WORD,
    "procs.used.data": _WORD,
    "procs.used.offset": _WORD,
    "procs.used.total": _WORD,
    "procs.monitorused": _Wanted(NUMBERS, 8, "devices", optional=True),
    "procs.device_util": _Wanted(("struct",), shape="devices", optional=True),
    "procs.device_util.dec": _MAYBE_WORD,
    "procs.device_util.enc": _MAYBE_WORD,
    "procs.device_util.sm": _MAYBE_WORD,
    "proc_num": _HALF,
    "utilization_switch": _HALF,
    "recent_kernel": _HALF,
    "priority": _HALF,
    "last_kernel_time": _MAYBE_WORD,
}
"""The fields that have a meaning here, by logical path."""

TOGETHER = (
    ("major_version", "minor_version"),
    ("procs.device_util", "procs.device_util.dec", "procs.device_util.enc", "procs.device_util.sm"),
)
"""Optional fields of which a layout has all or none."""

PROBE_KEYS: Mapping[str, Mapping[str, type]] = {
    "size": {},
    "version": {},
    "range": {"min": int, "max": int},
    "text": {"prefixes": str},
    "semaphore": {},
    "footer": {"max": int, "switch": str, "kernel": str},
    "slot_values": {"values": int},
    "slot_zero": {},
    "slot_counter": {"max": int},
    "slot_balance": {"parts": str, "total": str},
}
"""The parameters each kind of probe takes beside ``field`` and ``weight``; see `PROBE_LISTS`."""

PROBE_LISTS = frozenset({"prefixes", "values", "parts"})
"""Parameters that are a list, not empty, of that type."""

FIELDLESS = frozenset({"size", "version"})
"""Kinds of probes that need no field."""


def probe_problem(probe: Probe) -> Problem | None:
    """What is wrong with a probe's own keys, or None."""
    wanted = PROBE_KEYS[probe.kind]
    for key, kind in wanted.items():
        value = probe.params.get(key)
        items = value if isinstance(value, list) else [value]
        right = all(isinstance(i, kind) and not isinstance(i, bool) for i in items)
        if not items or not right or isinstance(value, list) != (key in PROBE_LISTS):
            several = "a list of " if key in PROBE_LISTS else "one "
            return key, f"a {probe.kind} probe needs {several}{kind.__name__}, not {shown(value)}"
    for key in probe.params:
        if key not in wanted:
            return key, f"is not a key of a {probe.kind} probe"
    if bool(probe.field) == (probe.kind in FIELDLESS):
        return "field", f"a {probe.kind} probe needs {'no' if probe.field else 'a'} field"
    if probe.kind.startswith("slot_") and not probe.field.startswith("procs."):
        return "field", "a slot probe looks at a field below procs"
    return None


def problems(layout: Layout) -> Iterator[Problem]:
    """Everything in fields, identity and seqlock that keeps a layout from being read."""
    yield from _field_problems(layout)
    yield from _identity_problems(layout)
    yield from _seqlock_problems(layout)
    for index, probe in enumerate(layout.identity.probes):
        if (problem := _probe_place(layout, probe)) is not None:
            yield f"identity.probes[{index}]", problem


def _field_problems(layout: Layout) -> Iterator[Problem]:
    devices = layout.element("uuids")
    for path, wanted in FIELDS.items():
        element = layout.element(path)
        if element is not None:
            problem = _misfit(element, wanted, devices.count if devices else 0)
            if problem:
                yield "structs", f"{path} {problem}"
        elif not wanted.optional:
            yield "structs", f"no field is (logically) named {path!r}; every reader needs it"
    for group in TOGETHER:
        present = [path for path in group if layout.has(path)]
        if present and len(present) < len(group):
            yield "structs", f"{present[0]} is there, so all of {', '.join(group)} must be"


def _misfit(element: Element, wanted: _Wanted, devices: int) -> str | None:
    """How an element differs from what is wanted of it."""
    if element.ctype.kind not in wanted.kinds:
        return f"must be of kind {' or '.join(wanted.kinds)}, not {element.ctype.kind}"
    if wanted.width is not None and element.ctype.size != wanted.width:
        return f"must have {wanted.width} bytes, not {element.ctype.size}"
    if wanted.width is not None and element.ctype.align != wanted.width:
        return f"must be aligned to its {wanted.width} bytes, not to {element.ctype.align}"
    if element.array != (wanted.shape != "one"):
        return "must be an array" if wanted.shape != "one" else "must not be an array"
    if wanted.shape == "devices" and not element.count == devices <= MAX_DEVICES:
        room = f"{devices}, at most {MAX_DEVICES}"
        return f"must have one element a device ({room}), not {element.count}"
    if wanted.shape == "slots" and element.count > MAX_SLOTS:
        return f"must have at most {MAX_SLOTS} elements, not {element.count}"
    return None


def _identity_problems(layout: Layout) -> Iterator[Problem]:
    identity = layout.identity
    place = layout.element(identity.magic_field)
    if place is None or place.ctype.kind not in NUMBERS or place.ctype.size != 4 or place.array:
        yield "identity.magic.field", f"{identity.magic_field!r} is no plain 4-byte number"
    if not 0 < identity.magic <= MAX_MAGIC:
        value = shown(identity.magic)
        yield "identity.magic.value", f"must be between 1 and {MAX_MAGIC}, not {value}"
    if identity.version and not layout.has("major_version"):
        yield "identity.version", "the region has no major_version and minor_version"


def _seqlock_problems(layout: Layout) -> Iterator[Problem]:
    if layout.seqlock is None:
        if layout.has("procs.seqlock"):
            yield "seqlock", "is missing, but there is a field procs.seqlock"
        return
    if layout.seqlock.field != "procs.seqlock" or not layout.has("procs.seqlock"):
        yield "seqlock.field", "must be 'procs.seqlock', and that must be a field"
    if "procs.used" not in layout.seqlock.covers:
        yield "seqlock.covers", "must name 'procs.used': readers take it as protected"
    for path in layout.seqlock.covers:
        if not layout.has(path):
            yield "seqlock.covers", f"{path!r} is not a field"


def _probe_place(layout: Layout, probe: Probe) -> str | None:
    """What is wrong with the fields that a probe looks at, or None."""
    kinds, paths = _probe_fields(probe)
    counts = set()
    for path in paths:
        element = layout.element(path)
        if element is None or not _logical(layout, path):
            return f"{path!r} is not the logical name of a field of this layout"
        if element.ctype.kind not in kinds:
            return f"{path!r} is of kind {element.ctype.kind}, not {' or '.join(kinds)}"
        counts.add(element.count)
    if probe.kind == "version" and layout.identity.version is None:
        return "asks for a version, but identity.version is missing"
    if probe.kind == "slot_balance" and len(counts) != 1:
        return "parts and total differ in their number of elements"
    return None


def _probe_fields(probe: Probe) -> tuple[tuple[Kind, ...], list[str]]:
    """The fields that a probe reads, and the kinds they may have."""
    if probe.kind == "text":
        return ("text",), [probe.field]
    if probe.kind == "semaphore":
        return ("semaphore",), [probe.field]
    if probe.kind == "footer":
        return NUMBERS, [probe.field, probe.params["switch"], probe.params["kernel"]]
    if probe.kind.startswith("slot_"):
        return NUMBERS, slot_paths(probe)
    return NUMBERS, [probe.field] if probe.field else []


def _logical(layout: Layout, path: str) -> bool:
    """Whether every part of a path is a logical name: probes find slot fields by those alone."""
    struct = layout.region
    for name in path.split("."):
        field = struct.get(name)
        if field is None or field.logical != name:
            return False
        struct = layout.structs.get(field.ctype.name, struct)
    return True
