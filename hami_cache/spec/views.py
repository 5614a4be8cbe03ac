"""Two views of a layout: a numpy structured dtype and a construct Struct."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from hami_cache.spec.layout import Field, Layout, Struct


def dtype(layout: Layout) -> np.dtype[Any]:
    """The region as a numpy dtype: itemsize is sizeof, every field at its offset, C names."""
    return _struct_dtype(layout, layout.region)


@lru_cache(maxsize=64)
def slot_dtype(layout: Layout) -> np.dtype[Any]:
    """One process slot as a numpy dtype."""
    procs = layout.region.get("procs")
    assert procs is not None  # every layout file is checked for it
    return _struct_dtype(layout, layout.struct_of(procs))


def _struct_dtype(layout: Layout, struct: Struct) -> np.dtype[Any]:
    names = [field.name for field in struct.fields]
    formats = [_field_format(layout, field) for field in struct.fields]
    offsets = [field.offset for field in struct.fields]
    return np.dtype(
        {"names": names, "formats": formats, "offsets": offsets, "itemsize": struct.sizeof}
    )


def _field_format(layout: Layout, field: Field) -> Any:
    shape: tuple[int, ...] = (field.count,) if field.array else ()
    if field.ctype.kind == "struct":
        return (_struct_dtype(layout, layout.struct_of(field)), shape)
    if field.ctype.kind in ("signed", "unsigned"):
        code = "i" if field.ctype.kind == "signed" else "u"
        return (f"<{code}{field.ctype.size}", shape)
    return ("u1", (*shape, field.ctype.size))


def construct(layout: Layout) -> Any:
    """The region as a construct Struct of every byte, gaps between fields included."""
    return _struct_construct(layout, layout.region)


def _struct_construct(layout: Layout, struct: Struct) -> Any:
    import construct as cs

    members = []
    end = 0
    for field in struct.fields:
        if field.offset > end:
            members.append(f"gap_{end}" / cs.Bytes(field.offset - end))
        element = _element_construct(layout, field)
        members.append(field.name / (cs.Array(field.count, element) if field.array else element))
        end = field.end
    if struct.sizeof > end:
        members.append(f"gap_{end}" / cs.Bytes(struct.sizeof - end))
    return cs.Struct(*members)


def _element_construct(layout: Layout, field: Field) -> Any:
    import construct as cs

    if field.ctype.kind == "struct":
        return _struct_construct(layout, layout.struct_of(field))
    if field.ctype.kind in ("signed", "unsigned"):
        sign = "s" if field.ctype.kind == "signed" else "u"
        return getattr(cs, f"Int{8 * field.ctype.size}{sign}l")
    return cs.Bytes(field.ctype.size)
