"""Builds `hami_cache._reader` from the C files beside this one (cffi API mode, run by setup.py)."""

from __future__ import annotations

import re
from pathlib import Path

from cffi import FFI

HERE = Path("native")
"""Relative on purpose: setuptools refuses absolute source paths, and builds run from the project's
root."""

SOURCES = ["layout.c", "map.c", "guard.c", "store.c", "table.c", "figures.c", "copy.c", "memory.c"]

ffibuilder = FFI()
ffibuilder.cdef(re.sub(r"/\*.*?\*/", "", (HERE / "abi.h").read_text(), flags=re.DOTALL))
ffibuilder.set_source(
    "hami_cache._reader",
    '#include <stddef.h>\n#include <stdint.h>\n#include "abi.h"',
    sources=[str(HERE / name) for name in SOURCES],
    include_dirs=[str(HERE)],
    depends=[str(HERE / name) for name in ("abi.h", "reader.h", "slot.h")],
    extra_compile_args=["-std=c11", "-O3", "-Wall", "-Wextra", "-fvisibility=hidden"],
    py_limited_api=True,
)
