"""Layout files: TOML in, `Layout` out; a wrong one gives one error naming file and key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from hami_cache.errors import LayoutError
from hami_cache.spec import probes
from hami_cache.spec.layout import (
    C_INTEGERS,
    Abi,
    CType,
    Field,
    Identity,
    Kind,
    Layout,
    Probe,
    Seqlock,
    Struct,
    Upstream,
    Version,
    align_up,
    bare_type,
)

FORMAT = 1
MAX_FILE_BYTES = 1 << 20
MAX_REGION_BYTES = 1 << 24
"""No region is larger than 16 MiB: the real ones have 2, and a file is mapped or read whole."""

T = TypeVar("T")

FIELD_WIDTHS: Mapping[str, int] = {
    "initialized_flag": 4, "major_version": 4, "minor_version": 4, "device_num": 8, "limit": 8,
    "sm_limit": 8, "proc_num": 4, "utilization_switch": 4, "recent_kernel": 4, "priority": 4,
    "last_kernel_time": 8, "procs.pid": 4, "procs.hostpid": 4, "procs.status": 4,
    "procs.seqlock": 8, "procs.monitorused": 8, "procs.used.context": 8, "procs.used.module": 8,
    "procs.used.data": 8, "procs.used.offset": 8, "procs.used.total": 8, "procs.device_util.sm": 8,
}  # fmt: skip
"""The fields that readers load in one piece, by logical path, and their width in bytes."""

OPTIONAL_FIELDS = frozenset(
    {
        "major_version", "minor_version", "last_kernel_time", "procs.seqlock", "procs.monitorused",
        "procs.device_util.sm",
    }
)  # fmt: skip
"""What a layout may lack; readers then say so instead of inventing a value."""

DEVICE_ARRAYS = (
    "uuids",
    "limit",
    "sm_limit",
    "procs.used",
    "procs.monitorused",
    "procs.device_util",
)
"""Arrays with one element for each device: they must all have the same length."""


def load(path: Path) -> Layout:
    """Read one layout file.

    Raises:
        LayoutError: names the file and the key, and what to put there.
    """
    try:
        data = path.read_bytes()
        if len(data) > MAX_FILE_BYTES:
            raise LayoutError(f"larger than {MAX_FILE_BYTES} bytes", path=path)
        document = tomllib.loads(data.decode())
    except OSError as error:
        raise LayoutError(f"cannot read the layout file: {error.strerror}", path=path) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LayoutError(f"not a TOML file: {error}", path=path) from None
    return _layout(_Table(document, path, ""), path)


class _Table:
    """A TOML table that knows its own place, for errors."""

    def __init__(self, values: Mapping[str, Any], path: Path, where: str) -> None:
        self._values = values
        self._path = path
        self._where = where
        self._asked: set[str] = set()

    def key(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def error(self, key: str, message: str, hint: str | None = None) -> LayoutError:
        return LayoutError(message, path=self._path, field=self.key(key), hint=hint)

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        self._asked.add(key)
        value = self._values.get(key, default)
        if value is None:
            raise self.error(key, "is missing")
        if kind is float and type(value) is int:
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(key, f"must be a {_toml_name(kind)}, not {value!r:.60}")
        return value

    def natural(self, key: str, default: int | None = None) -> int:
        value = self.get(key, int, default)
        if not 0 <= value <= MAX_REGION_BYTES:
            raise self.error(key, f"must be between 0 and {MAX_REGION_BYTES}, not {value}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        values = self.get(key, list)
        if not all(isinstance(v, str) for v in values):
            raise self.error(key, "must be a list of strings")
        return tuple(values)

    def table(self, key: str) -> _Table:
        return _Table(self.get(key, dict), self._path, self.key(key))

    def tables(self, key: str) -> list[_Table]:
        values = self.get(key, list)
        if not all(isinstance(v, dict) for v in values):
            raise self.error(key, "must be a list of tables")
        return [_Table(v, self._path, f"{self.key(key)}[{i}]") for i, v in enumerate(values)]

    def names(self) -> list[str]:
        self._asked.update(self._values)
        return list(self._values)

    def has(self, key: str) -> bool:
        return key in self._values

    def rest(self) -> dict[str, Any]:
        """Everything not asked for yet: a probe's parameters."""
        rest = {k: v for k, v in self._values.items() if k not in self._asked}
        self._asked.update(rest)
        return rest

    def done(self) -> None:
        """Refuse keys that nobody asked for: a typo must not pass as a default."""
        for key in self._values:
            if key not in self._asked:
                raise self.error(
                    key, "is not a key of a layout file", hint="see docs/add-a-layout.md"
                )


def _toml_name(kind: type) -> str:
    names = {
        str: "string",
        int: "whole number",
        float: "number",
        dict: "table",
        list: "list",
        bool: "boolean",
    }
    return names[kind]


def _layout(top: _Table, path: Path) -> Layout:
    if (version := top.get("format", int)) != FORMAT:
        raise top.error("format", f"is {version}; this version of hami-cache reads format {FORMAT}")
    name = top.get("name", str)
    if name != path.stem:
        raise top.error(
            "name", f"is {name!r} but the file is called {path.name}", hint="make them agree"
        )
    abi_table = top.table("abi")
    types = _types(abi_table)
    structs: dict[str, Struct] = {}
    for table in top.tables("structs"):
        struct = _struct(table, types)
        if struct.name in types:
            raise table.error("name", f"{struct.name!r} is defined twice")
        structs[struct.name] = struct
        types[struct.name] = CType(struct.name, struct.sizeof, struct.alignof, "struct")
    region_table = top.table("region")
    region_name = region_table.get("struct", str)
    region_table.done()
    if region_name not in structs:
        raise region_table.error("struct", f"{region_name!r} is not among the structs")
    region = structs[region_name]
    if (sizeof := abi_table.natural("sizeof")) != region.sizeof:
        raise abi_table.error("sizeof", f"is {sizeof} but {region.name} has {region.sizeof}")
    layout = Layout(
        name=name,
        order=top.natural("order"),
        summary=top.get("summary", str).strip(),
        upstream=_upstream(top.table("upstream")),
        abi=_abi(abi_table),
        identity=_identity(top.table("identity")),
        seqlock=_seqlock(top.table("seqlock")) if top.has("seqlock") else None,
        region=region,
        structs=structs,
        path=path,
    )
    top.get("seqlock", dict, {})
    top.done()
    _check_references(layout, top)
    return layout


def _types(abi: _Table) -> dict[str, CType]:
    types = {name: CType(name, size, size, kind) for name, (size, kind) in C_INTEGERS.items()}
    extra = abi.table("types")
    kinds: dict[str, Kind] = {
        "semaphore": "semaphore",
        "text": "text",
        "signed": "signed",
        "unsigned": "unsigned",
    }
    for name in extra.names():
        table = extra.table(name)
        kind = kinds.get(table.get("kind", str))
        if kind is None:
            raise table.error("kind", f"must be one of {', '.join(kinds)}")
        size, align = table.natural("size"), table.natural("align")
        if size == 0 or align not in (1, 2, 4, 8, 16):
            raise table.error("align", "size must be positive and align one of 1, 2, 4, 8, 16")
        if kind in ("signed", "unsigned") and size not in (1, 2, 4, 8):
            raise table.error("size", f"a number has 1, 2, 4 or 8 bytes, not {size}")
        if kind == "semaphore" and size < 16:
            raise table.error("size", f"a semaphore has at least 16 bytes, not {size}")
        types[name] = CType(name, size, align, kind)
        table.done()
    return types


def _struct(table: _Table, types: Mapping[str, CType]) -> Struct:
    name = table.get("name", str)
    fields: list[Field] = []
    rows = table.tables("fields")
    for row in rows:
        field = _field(row, types)
        if any({field.name, field.logical} & {f.name, f.logical} for f in fields):
            raise row.error("name", f"{field.name!r} stands twice in {name}")
        fields.append(field)
    if not fields:
        raise table.error("fields", "a struct needs at least one field")
    struct = Struct(name, table.natural("sizeof"), table.natural("alignof"), tuple(fields))
    table.done()
    for index, (field, row) in enumerate(zip(fields, rows, strict=True)):
        if field.offset != (place := struct.place(index)):
            raise row.error(
                "offset", f"{field.name} is at {field.offset}, but C places it at {place}"
            )
    align = max(f.ctype.align for f in fields)
    if struct.alignof != align:
        raise table.error("alignof", f"is {struct.alignof}, but the fields ask for {align}")
    if struct.sizeof != (size := align_up(fields[-1].end, align)):
        raise table.error("sizeof", f"is {struct.sizeof}, but the fields end at {size}")
    return struct


def _field(row: _Table, types: Mapping[str, CType]) -> Field:
    name = row.get("name", str)
    spelling = row.get("type", str)
    ctype = types.get(bare_type(spelling))
    if ctype is None:
        raise row.error(
            "type", f"{spelling!r} is not known", hint="name it under abi.types or structs"
        )
    count = row.natural("count", 1)
    if count == 0:
        raise row.error("count", "must be at least 1")
    field = Field(
        name=name,
        type=spelling,
        ctype=ctype,
        offset=row.natural("offset"),
        count=count,
        array=row.has("count"),
        logical=row.get("logical", str, name),
        padding=row.get("padding", bool, False),
    )
    if field.end > MAX_REGION_BYTES:
        raise row.error("count", f"ends beyond {MAX_REGION_BYTES} bytes")
    row.done()
    return field


def _upstream(table: _Table) -> Upstream:
    upstream = Upstream(
        project=table.get("project", str),
        since=table.get("since", str),
        before=table.get("before", str),
        commits=table.texts("commits"),
        releases=table.texts("releases"),
        changes=table.get("changes", str),
    )
    table.done()
    return upstream


def _abi(table: _Table) -> Abi:
    abi = Abi(
        byte_order=table.get("byte_order", str),
        data_model=table.get("data_model", str),
        architectures=table.texts("architectures"),
        witness=table.get("witness", str),
    )
    if abi.byte_order != "little":
        raise table.error(
            "byte_order", f"{abi.byte_order!r} is not supported", hint='only "little" is'
        )
    if abi.data_model != "LP64":
        raise table.error(
            "data_model", f"{abi.data_model!r} is not supported", hint='only "LP64" is'
        )
    table.done()
    return abi


def _identity(table: _Table) -> Identity:
    magic = table.table("magic")
    version = None
    if table.has("version"):
        row = table.table("version")
        version = Version(row.natural("major"), row.natural("minor"))
        row.done()
    found = []
    for row in table.tables("probes"):
        kind = row.get("kind", str)
        if kind not in probes.KINDS:
            raise row.error(
                "kind", f"{kind!r} is not a probe", hint=f"known: {', '.join(probes.KINDS)}"
            )
        weight = row.get("weight", float)
        probe = Probe(kind, row.get("field", str, ""), weight, row.rest())
        if not 0 < probe.weight <= 100:
            raise row.error("weight", f"must be above 0 and at most 100, not {probe.weight}")
        if (problem := probes.problem(probe)) is not None:
            raise row.error(*problem)
        found.append(probe)
    identity = Identity(
        magic_field=magic.get("field", str),
        magic=magic.get("value", int),
        version=version,
        trailing=table.natural("trailing"),
        probes=tuple(found),
    )
    magic.done()
    table.done()
    return identity


def _seqlock(table: _Table) -> Seqlock:
    seqlock = Seqlock(table.get("field", str), table.texts("covers"))
    table.done()
    return seqlock


def _check_references(layout: Layout, top: _Table) -> None:
    """Every field that identity, seqlock and the readers name must exist."""
    for path, width in FIELD_WIDTHS.items():
        element = layout.element(path)
        if element is not None:
            if element.ctype.size != width:
                raise top.error("structs", f"{path} has {element.ctype.size} bytes, not {width}")
        elif path not in OPTIONAL_FIELDS:
            raise top.error(
                "structs", f"no field is (logically) named {path!r}", "every reader needs it"
            )
    elements = {path: layout.element(path) for path in DEVICE_ARRAYS}
    counts = {path: element.count for path, element in elements.items() if element}
    if len(set(counts.values())) != 1:
        raise top.error("structs", f"the arrays over devices differ in length: {counts}")
    if not layout.has(layout.identity.magic_field):
        raise top.error("identity.magic.field", f"{layout.identity.magic_field!r} is not a field")
    if layout.identity.version and not (
        layout.has("major_version") and layout.has("minor_version")
    ):
        raise top.error("identity.version", "the region has no major_version and minor_version")
    if layout.seqlock:
        for path in (layout.seqlock.field, *layout.seqlock.covers):
            if not layout.has(path):
                raise top.error("seqlock", f"{path!r} is not a field")
    for index, probe in enumerate(layout.identity.probes):
        if (missing := probes.missing_field(layout, probe)) is not None:
            key = f"identity.probes[{index}]"
            raise top.error(key, f"{missing!r} is not a field of this layout")
