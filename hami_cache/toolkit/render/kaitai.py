"""A layout as a Kaitai Struct specification (``.ksy``)."""

from __future__ import annotations

from collections.abc import Iterator

from hami_cache.spec.layout import Field, Layout, Struct
from hami_cache.toolkit.render.common import provenance, with_gaps


def render(layout: Layout) -> str:
    """A ``.ksy`` file; the region is the top-level type."""
    return "\n".join(_lines(layout)) + "\n"


def _lines(layout: Layout) -> Iterator[str]:
    yield from (f"# {line}" for line in provenance(layout))
    yield "meta:"
    yield f"  id: {_id(layout.region.name)}"
    yield f"  title: HAMi shared region, layout {layout.name}"
    yield "  file-extension: cache"
    yield "  endian: le"
    yield "seq:"
    yield from _sequence(layout.region, "  ")
    yield "types:"
    for struct in layout.structs.values():
        if struct is not layout.region:
            yield f"  {_id(struct.name)}:"
            yield "    seq:"
            yield from _sequence(struct, "      ")
    yield "  semaphore:"
    yield "    seq:"
    yield "      - {id: value, type: u4}"
    yield "      - {id: num_waiters, type: u4}"
    yield "      - {id: is_private, type: u4}"


def _sequence(struct: Struct, indent: str) -> Iterator[str]:
    for part in with_gaps(struct):
        if isinstance(part, tuple):
            offset, length = part
            yield f"{indent}- id: gap_{offset}"
            yield f"{indent}  size: {length}"
            continue
        yield f"{indent}- id: {_id(part.name)}"
        yield from (f"{indent}  {line}" for line in _type(part))
        if part.array:
            yield f"{indent}  repeat: expr"
            yield f"{indent}  repeat-expr: {part.count}"
        yield f"{indent}  doc: {part.type} at {part.offset}"


def _type(field: Field) -> Iterator[str]:
    ctype = field.ctype
    if ctype.kind == "struct":
        yield f"type: {_id(ctype.name)}"
    elif ctype.kind == "semaphore":
        yield "type: semaphore"
        yield f"size: {ctype.size}"
    elif ctype.kind in ("signed", "unsigned"):
        yield f"type: {'s' if ctype.kind == 'signed' else 'u'}{ctype.size}"
    else:
        yield f"size: {ctype.size}"


def _id(name: str) -> str:
    """Kaitai's identifiers are lower case and start with a letter."""
    lower = name.lower().lstrip("_")
    return lower if lower[:1].isalpha() else f"f_{lower}"
