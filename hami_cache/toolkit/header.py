"""A C header as a shape: parsed here, placed by a C compiler, or by our arithmetic without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hami_cache.spec.layout import Version
from hami_cache.toolkit import compiler as compilers
from hami_cache.toolkit import cpreprocess
from hami_cache.toolkit.arithmetic import Arithmetic
from hami_cache.toolkit.cdecl import Declarations, declarations
from hami_cache.toolkit.shape import LP64_MACHINES, REGION, Shape, ShapeError, choose_region

MAGIC = "MULTIPROCESS_SHARED_REGION_MAGIC_FLAG"
VERSION = ("MAJOR_VERSION", "MINOR_VERSION")
"""The macros by which HAMi-core's header says what its regions start with."""

NO_COMPILER = "none"
OWN_ARITHMETIC = "hami-cache's own arithmetic for LP64 Linux"


def read_header(
    path: Path,
    *,
    struct: str = REGION,
    cc: str | None = None,
    folders: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
) -> Shape:
    """The region that a C header declares.

    Args:
        path: the header; what it includes need not be there, unless the region needs it.
        struct: the region's typedef or tag.
        cc: the compiler to ask; None for ``$CC`` or the usual names, ``"none"`` for none.
        folders: where includes are looked for.
        defines: macros from outside.

    Raises:
        ShapeError: no such struct, or it cannot be understood or placed.
        ConfigError: the compiler asked for does not work.
    """
    source = cpreprocess.read(path, folders, defines)
    found = declarations(source)
    base = _region(found, struct, path)
    compiler = None if cc == NO_COMPILER else compilers.find_compiler(cc)
    if compiler is not None:
        structs = compilers.place(found, base, compiler, path)
    else:
        arithmetic = Arithmetic(found, path)
        arithmetic.place(base)
        structs = arithmetic.structs
    major, minor = (source.constant(name) for name in VERSION)
    return Shape(
        name=path.name,
        region=structs[found.title(base)],
        structs=structs,
        version=None if major is None or minor is None else Version(major, minor),
        magic=source.constant(MAGIC),
        judge=str(compiler or OWN_ARITHMETIC),
        machines=(compiler.machine.split("-")[0],) if compiler else LP64_MACHINES,
    )


def _region(found: Declarations, wanted: str, path: Path) -> str:
    """The internal name of the struct asked for."""
    for name, reason in found.failures.items():
        if name == wanted:
            raise ShapeError(f"{name} is not understood: {reason}", path=path)
    name = choose_region(found.struct_names(), wanted, path)
    return found.aliases[name].type.base if name in found.aliases else f"struct {name}"
