"""Layout files: TOML in, `Layout` out; a wrong one gives one error naming file and key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from hami_cache.errors import LayoutError
from hami_cache.spec import checks
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
from hami_cache.spec.toml_table import MAX_NUMBER, Table, shown

FORMAT = 1
MAX_FILE_BYTES = 1 << 20
MAX_REGION_BYTES = MAX_NUMBER
"""No region is larger than 16 MiB: the real ones have 2, and a file is mapped or read whole."""

KINDS: tuple[Kind, ...] = ("semaphore", "text", "signed", "unsigned")
"""What a type under ``abi.types`` can hold."""


def load(path: Path) -> Layout:
    """Read one layout file.

    Raises:
        LayoutError: names the file and the key, and what to put there.
    """
    try:
        if not path.is_file():
            raise LayoutError("is not a regular file", path=path)
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise LayoutError(f"cannot read the layout file: {error.strerror}", path=path) from None
    if len(data) > MAX_FILE_BYTES:
        raise LayoutError(f"larger than {MAX_FILE_BYTES} bytes", path=path)
    return parse(data, path)


def parse(data: bytes, path: Path) -> Layout:
    """A layout from the bytes of its file.

    Args:
        data: the TOML text.
        path: the file's place, for errors; its stem must be the layout's name.

    Raises:
        LayoutError: as `load`.
    """
    try:
        document = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise LayoutError(f"not a TOML file: {error}", path=path) from None
    return _layout(Table(document, path, ""), path)


def _layout(top: Table, path: Path) -> Layout:
    if (version := top.get("format", int)) != FORMAT:
        message = f"is {shown(version)}; this version of hami-cache reads format {FORMAT}"
        raise top.error("format", message)
    name = top.get("name", str)
    if not re.fullmatch(r"\w[\w.-]*", name, re.ASCII):
        raise top.error("name", f"must be of letters, digits and ._-, not {shown(name)}")
    if name != path.stem:
        message = f"is {name!r} but the file is called {path.name}"
        raise top.error("name", message, hint="make them agree")
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
    for key, message in checks.problems(layout):
        raise top.error(key, message)
    return layout


def _types(abi: Table) -> dict[str, CType]:
    types = {name: CType(name, size, size, kind) for name, (size, kind) in C_INTEGERS.items()}
    extra = abi.table("types")
    for name in extra.names():
        table = extra.table(name)
        if name in types:
            raise extra.error(name, "is C's own type and cannot be defined here")
        kind = next((k for k in KINDS if k == table.get("kind", str)), None)
        if kind is None:
            raise table.error("kind", f"must be one of {', '.join(KINDS)}")
        size, align = table.natural("size"), table.natural("align")
        if size == 0 or align not in (1, 2, 4, 8, 16) or size % align:
            raise table.error("align", "must be 1, 2, 4, 8 or 16, and size a multiple of it")
        if kind in ("signed", "unsigned") and size not in (1, 2, 4, 8):
            raise table.error("size", f"a number has 1, 2, 4 or 8 bytes, not {size}")
        if kind == "semaphore" and size < 16:
            raise table.error("size", f"a semaphore has at least 16 bytes, not {size}")
        types[name] = CType(name, size, align, kind)
        table.done()
    return types


def _struct(table: Table, types: Mapping[str, CType]) -> Struct:
    name = table.word("name")
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


def _field(row: Table, types: Mapping[str, CType]) -> Field:
    name = row.word("name")
    spelling = row.get("type", str)
    ctype = types.get(bare_type(spelling))
    if ctype is None:
        raise row.error(
            "type", f"{shown(spelling)} is not known", hint="name it under abi.types or structs"
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
        logical=row.word("logical", name),
        padding=row.get("padding", bool, False),
    )
    if field.end > MAX_REGION_BYTES:
        raise row.error("count", f"ends beyond {MAX_REGION_BYTES} bytes")
    row.done()
    return field


def _upstream(table: Table) -> Upstream:
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


def _abi(table: Table) -> Abi:
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


def _identity(table: Table) -> Identity:
    magic = table.table("magic")
    version = None
    if table.has("version"):
        row = table.table("version")
        version = Version(row.natural("major"), row.natural("minor"))
        row.done()
    found = []
    for row in table.tables("probes"):
        kind = row.get("kind", str)
        if kind not in checks.PROBE_KEYS:
            hint = f"known: {', '.join(checks.PROBE_KEYS)}"
            raise row.error("kind", f"{shown(kind)} is not a probe", hint)
        weight = row.get("weight", float)
        probe = Probe(kind, row.get("field", str, ""), weight, row.rest())
        if not 0 < probe.weight <= 100:
            raise row.error("weight", f"must be above 0 and at most 100, not {probe.weight}")
        if (problem := checks.probe_problem(probe)) is not None:
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


def _seqlock(table: Table) -> Seqlock:
    seqlock = Seqlock(table.get("field", str), table.texts("covers"))
    table.done()
    return seqlock
