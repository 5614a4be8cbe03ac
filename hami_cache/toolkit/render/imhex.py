"""A layout as a pattern for the ImHex hex editor."""

from __future__ import annotations

from collections.abc import Iterator

from hami_cache.spec.layout import Field, Layout, Struct
from hami_cache.toolkit.render.common import provenance, with_gaps


def render(layout: Layout) -> str:
    """A ``.hexpat`` file that puts the region at the start of the data."""
    return "\n".join(_lines(layout)) + "\n"


def _lines(layout: Layout) -> Iterator[str]:
    yield from (f"// {line}" for line in provenance(layout))
    yield "#pragma endian little"
    # The region has more fields and longer arrays than ImHex shows unasked.
    largest = max(f.count for s in layout.structs.values() for f in s.fields)
    yield f"#pragma array_limit {largest}"
    yield f"#pragma pattern_limit {8 * layout.sizeof}"
    yield ""
    sizes = {f.ctype.size for s in layout.structs.values() for f in s.fields
             if f.ctype.kind == "semaphore"}  # fmt: skip
    for size in sorted(sizes):
        yield f"struct semaphore_{size} {{"
        yield "    u32 value;"
        yield "    u32 waiters;"
        yield "    u32 private_flag;"
        yield f"    padding[{size - 12}];"
        yield "};"
        yield ""
    for struct in layout.structs.values():
        yield f"struct {struct.name} {{"
        yield from (f"    {line}" for line in _members(struct))
        yield "};"
        yield ""
    yield f"{layout.region.name} region @ 0x00;"


def _members(struct: Struct) -> Iterator[str]:
    for part in with_gaps(struct):
        if isinstance(part, tuple):
            yield f"padding[{part[1]}];"
        else:
            yield f"{_declaration(part)};  // {part.offset}"


def _declaration(field: Field) -> str:
    bounds = f"[{field.count}]" if field.array else ""
    ctype = field.ctype
    if ctype.kind == "struct":
        return f"{ctype.name} {field.name}{bounds}"
    if ctype.kind == "semaphore":
        return f"semaphore_{ctype.size} {field.name}{bounds}"
    if ctype.kind in ("signed", "unsigned"):
        return f"{'s' if ctype.kind == 'signed' else 'u'}{8 * ctype.size} {field.name}{bounds}"
    # The language has no arrays of arrays: texts lie one after the other.
    return f"char {field.name}[{ctype.size * field.count}]"
