"""A layout as a C header that holds itself to its offsets."""

from __future__ import annotations

from collections.abc import Iterator

from hami_cache.spec.layout import Field, Layout, Struct
from hami_cache.toolkit.arithmetic import KNOWN_TYPES
from hami_cache.toolkit.header import MAGIC, VERSION
from hami_cache.toolkit.render.common import provenance


def render(layout: Layout) -> str:
    """A header; C11, with a static assertion for every offset."""
    return "\n".join(_lines(layout)) + "\n"


def _lines(layout: Layout) -> Iterator[str]:
    guard = f"HAMI_CACHE_LAYOUT_{''.join(c if c.isalnum() else '_' for c in layout.name.upper())}_H"
    yield from (f"// {line}" for line in provenance(layout))
    yield f"#ifndef {guard}"
    yield f"#define {guard}"
    yield ""
    yield "#include <semaphore.h>"
    yield "#include <stddef.h>"
    yield "#include <stdint.h>"
    yield "#include <sys/types.h>"
    yield ""
    yield f"#define {MAGIC} {layout.identity.magic}"
    if layout.identity.version:
        major, minor = VERSION
        yield f"#define {major} {layout.identity.version.major}"
        yield f"#define {minor} {layout.identity.version.minor}"
    yield ""
    yield from _own_types(layout)
    for struct in layout.structs.values():
        yield from _struct(struct)
    yield f"#endif  // {guard}"


def _own_types(layout: Layout) -> Iterator[str]:
    """Types that neither C nor the system knows."""
    types = {f.ctype.name: f.ctype for s in layout.structs.values() for f in s.fields}
    for name, ctype in types.items():
        if name in KNOWN_TYPES or ctype.kind == "struct" or not name.isidentifier():
            continue
        if ctype.kind in ("signed", "unsigned"):
            yield f"typedef {'u' if ctype.kind == 'unsigned' else ''}int{8 * ctype.size}_t {name};"
        elif ctype.align == 1:
            yield f"typedef char {name}[{ctype.size}];"
        else:
            yield f"typedef struct {{ _Alignas({ctype.align}) char bytes[{ctype.size}]; }} {name};"
        yield ""


def _struct(struct: Struct) -> Iterator[str]:
    yield "typedef struct {"
    for field in struct.fields:
        yield f"    {_declaration(field)};"
    yield f"}} {struct.name};"
    yield ""
    for field in struct.fields:
        place = f"offsetof({struct.name}, {field.name}) == {field.offset}"
        yield f'_Static_assert({place}, "{struct.name}.{field.name}");'
    yield f'_Static_assert(sizeof({struct.name}) == {struct.sizeof}, "{struct.name}");'
    yield ""


def _declaration(field: Field) -> str:
    bounds = f"[{field.count}]" if field.array else ""
    base, bracket, rest = field.type.partition(
        "["
    )  # char[96], as a library's debug information has it
    return f"{base} {field.name}{bounds}{bracket}{rest}"
