"""A layout as a Rust module that does not compile if its offsets are wrong."""

from __future__ import annotations

from collections.abc import Iterator

from hami_cache.spec.layout import CType, Field, Layout, Struct
from hami_cache.toolkit.render.common import pascal, provenance

KEYWORDS = frozenset(
    {
        "as", "async", "await", "box", "break", "const", "continue", "dyn", "else", "enum",
        "extern", "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move",
        "mut", "priv", "pub", "ref", "return", "static", "struct", "trait", "true", "type",
        "unsafe", "use", "where", "while", "yield",
    }
)  # fmt: skip


def render(layout: Layout) -> str:
    """A module of plain structs; needs Rust 1.77 for ``offset_of!``."""
    return "\n".join(_lines(layout)) + "\n"


def _lines(layout: Layout) -> Iterator[str]:
    yield from (f"//! {line}" for line in provenance(layout))
    yield ""
    yield "use std::mem::{offset_of, size_of};"
    yield ""
    yield "/// What the first field holds once a region is initialised."
    yield f"pub const MAGIC: i32 = {layout.identity.magic};"
    if layout.identity.version:
        version = layout.identity.version
        yield ""
        yield "/// What the header of such a region says: major, minor."
        yield f"pub const VERSION: (u32, u32) = ({version.major}, {version.minor});"
    for struct in layout.structs.values():
        yield ""
        yield from _struct(struct)
    yield ""
    yield "const _: () = {"
    for struct in layout.structs.values():
        name = pascal(struct.name)
        yield f"    assert!(size_of::<{name}>() == {struct.sizeof});"
        for field in struct.fields:
            yield f"    assert!(offset_of!({name}, {_name(field)}) == {field.offset});"
    yield "};"


def _struct(struct: Struct) -> Iterator[str]:
    yield f"/// `{struct.name}`: {struct.sizeof} bytes."
    yield "#[repr(C)]"
    yield "#[derive(Clone, Copy)]"
    yield f"pub struct {pascal(struct.name)} {{"
    yield from (f"    pub {_name(field)}: {_type(field)}," for field in struct.fields)
    yield "}"


def _name(field: Field) -> str:
    return f"r#{field.name}" if field.name in KEYWORDS else field.name


def _type(field: Field) -> str:
    element = _element(field.ctype)
    return f"[{element}; {field.count}]" if field.array else element


def _element(ctype: CType) -> str:
    if ctype.kind == "struct":
        return pascal(ctype.name)
    if ctype.kind in ("signed", "unsigned"):
        return f"{'i' if ctype.kind == 'signed' else 'u'}{8 * ctype.size}"
    return f"[u{8 * ctype.align}; {ctype.size // ctype.align}]"
