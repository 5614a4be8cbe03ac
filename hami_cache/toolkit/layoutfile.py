"""A layout as the TOML file that describes it: the inverse of `spec.specfile`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hami_cache.spec import specfile
from hami_cache.spec.layout import C_INTEGERS, CType, Field, Layout, Probe, Struct


def to_toml(layout: Layout) -> str:
    """The file of a layout.

    Raises:
        LayoutError: the layout is not one that a file can describe; names the key that would be
            wrong.
    """
    text = "\n".join([*_head(layout), *_identity(layout), *_structs(layout)]) + "\n"
    specfile.parse(text.encode(), layout.path)
    return text


def _head(layout: Layout) -> Iterator[str]:
    yield f"# The layout {layout.name} of {layout.region.name}. See docs/add-a-layout.md."
    yield f"format = {specfile.FORMAT}"
    yield f"name = {_value(layout.name)}"
    yield f"order = {layout.order} # age among all layouts: a higher number is newer"
    yield f"summary = {_value(layout.summary)}"
    yield "\n[upstream]"
    yield f"project = {_value(layout.upstream.project)}"
    yield f"since = {_value(layout.upstream.since)}"
    yield f"before = {_value(layout.upstream.before)} # the first commit that no longer has it"
    yield f"commits = {_value(layout.upstream.commits)} # built and checked"
    yield f"releases = {_value(layout.upstream.releases)}"
    yield f"changes = {_value(layout.upstream.changes)}"
    yield "\n[abi]"
    yield f"byte_order = {_value(layout.abi.byte_order)}"
    yield f"data_model = {_value(layout.abi.data_model)}"
    yield f"sizeof = {layout.sizeof}"
    yield f"architectures = {_value(layout.abi.architectures)}"
    yield f"witness = {_value(layout.abi.witness)}"
    yield "\n[abi.types] # beside C's own integer types"
    for name, ctype in _outside_types(layout).items():
        key = name if name.isidentifier() else _value(name)
        values = {"size": ctype.size, "align": ctype.align, "kind": ctype.kind}
        yield f"{key} = {_value(values)}"


def _identity(layout: Layout) -> Iterator[str]:
    identity = layout.identity
    magic = {"field": identity.magic_field, "value": identity.magic}
    yield "\n[identity]"
    yield f"magic = {_value(magic)}"
    if identity.version:
        version = {"major": identity.version.major, "minor": identity.version.minor}
        yield f"version = {_value(version)}"
    yield f"trailing = {identity.trailing} # bytes that a real file may have beyond the struct"
    yield "# What the content must look like; weights are log-odds (see docs/identification.md)."
    yield "probes = ["
    yield from (f"  {_value(_probe(probe))}," for probe in identity.probes)
    yield "]"
    if layout.seqlock:
        yield "\n[seqlock]"
        yield f"field = {_value(layout.seqlock.field)}"
        yield f"covers = {_value(layout.seqlock.covers)}"


def _structs(layout: Layout) -> Iterator[str]:
    yield "\n[region]"
    yield f"struct = {_value(layout.region.name)}"
    for struct in layout.structs.values():
        yield from _struct(struct)


def _struct(struct: Struct) -> Iterator[str]:
    yield "\n[[structs]]"
    yield f"name = {_value(struct.name)}"
    yield f"sizeof = {struct.sizeof}"
    yield f"alignof = {struct.alignof}"
    yield "fields = ["
    yield from (f"  {_value(_field(field))}," for field in struct.fields)
    yield "]"


def _field(field: Field) -> Mapping[str, Any]:
    values: dict[str, Any] = {"name": field.name, "type": field.type}
    if field.array:
        values["count"] = field.count
    values["offset"] = field.offset
    if field.logical != field.name:
        values["logical"] = field.logical
    if field.padding:
        values["padding"] = True
    return values


def _probe(probe: Probe) -> Mapping[str, Any]:
    field = {"field": probe.field} if probe.field else {}
    return {"kind": probe.kind, **field, **probe.params, "weight": float(probe.weight)}


def _outside_types(layout: Layout) -> dict[str, CType]:
    """The types that are neither C's own integers nor structs of the layout."""
    used = {f.ctype.name: f.ctype for s in layout.structs.values() for f in s.fields}
    return {n: t for n, t in used.items() if n not in C_INTEGERS and t.kind != "struct"}


def _value(value: object) -> str:
    """A value as TOML writes it, tables inline."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{"".join(map(_character, value))}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(v)}" for key, v in value.items()) + " }"
    return str(value)


def _character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08X}"
