"""A layout as Python source for the construct library."""

from __future__ import annotations

from collections.abc import Iterator

from hami_cache.spec.layout import Field, Layout, Struct
from hami_cache.toolkit.render.common import provenance, with_gaps


def render(layout: Layout) -> str:
    """A module with a construct Struct for each struct; the region's parses every byte."""
    return "\n".join(_lines(layout)) + "\n"


def _lines(layout: Layout) -> Iterator[str]:
    lines = provenance(layout)
    yield f'"""{lines[0]}'
    yield ""
    yield from lines[1:]
    yield '"""'
    yield ""
    yield "import construct as cs"
    yield ""
    yield f"MAGIC = {layout.identity.magic}"
    for struct in layout.structs.values():
        yield ""
        yield f"{struct.name} = cs.Struct("
        yield from (f"    {line}," for line in _members(struct))
        yield ")"


def _members(struct: Struct) -> Iterator[str]:
    for part in with_gaps(struct):
        if isinstance(part, tuple):
            yield f'"gap_{part[0]}" / cs.Bytes({part[1]})'
        else:
            element = _element(part)
            value = f"cs.Array({part.count}, {element})" if part.array else element
            yield f'"{part.name}" / {value}'


def _element(field: Field) -> str:
    ctype = field.ctype
    if ctype.kind == "struct":
        return ctype.name
    if ctype.kind in ("signed", "unsigned"):
        return f"cs.Int{8 * ctype.size}{'s' if ctype.kind == 'signed' else 'u'}l"
    return f"cs.Bytes({ctype.size})"
