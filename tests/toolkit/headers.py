"""Headers as people write them, made from a layout: macros, comments and code around structs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_cache.spec import registry
from hami_cache.spec.layout import Field, Layout
from tests.goldens import LAYOUTS

CC = "gcc"
CROSS_CC = "aarch64-linux-gnu-gcc"

needs_cc = pytest.mark.skipif(shutil.which(CC) is None, reason="no C compiler here")
needs_clang = pytest.mark.skipif(shutil.which("clang") is None, reason="no clang here")
needs_cross_cc = pytest.mark.skipif(
    shutil.which(CROSS_CC) is None, reason="no compiler for aarch64 (gcc-aarch64-linux-gnu) here"
)

JUDGES = [
    pytest.param(CC, marks=needs_cc),
    pytest.param(CROSS_CC, marks=needs_cross_cc),
    pytest.param("clang", marks=needs_clang),
    pytest.param("none", id="own-arithmetic"),
]
"""Everybody who can place the fields of a header."""

EVERY_LAYOUT = [pytest.param(registry.layout(name), id=name) for name in LAYOUTS]

_NAMES = {16: "CUDA_DEVICE_MAX_COUNT", 1024: "SHARED_REGION_MAX_PROCESS_NUM"}

_TOP = """\
#ifndef SHARED_H
#define SHARED_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <cuda.h>  // not on this machine
#include "static_config.h"

#define MULTIPROCESS_SHARED_REGION_MAGIC_FLAG  {magic}
#define CACHE_PATH "/tmp/it's \\"quoted\\" // no comment.cache"
#define CUDA_DEVICE_MAX_COUNT 16   /* boards; not
                                      more */
#define SHARED_REGION_MAX_PROCESS_NUM (1 << 10)
#define SHARED_REGION_SIZE sizeof(shared_region_t)
#ifndef SWEEP_AT
    #define SWEEP_AT ((SHARED_REGION_MAX_PROCESS_NUM * 3) / 4)
#endif
#ifdef __cplusplus
extern "C" {{
#endif
#define TRACE(point)
#if defined(SWEEP_AT) && SWEEP_AT > 2000
typedef struct {{ int never; }} shared_region_t;
#endif
#define TWO_LINES 1 + \\
    2
{version}
// What one process (a {{ brace) uses.
"""

_BOTTOM = """\
typedef struct {
    int32_t pid;
    pthread_once_t once;
    shared_region_t* region;
    shrreg_proc_slot_t *mine, *other;
} region_info_t;

typedef struct {
    size_t tid;
    CUcontext ctx;  // a type that nobody here declares
} context_map;

union odd { int a; char b; };
enum { FIRST, SECOND = 5, THIRD };

static inline int is_fine(const shared_region_t *r, CUdevice dev) {
    if (r && dev) { return '}'; }
    return 0;
}
extern int counts[CUDA_DEVICE_MAX_COUNT];
void ensure_initialized(void);
#ifdef __cplusplus
}
#endif
#endif
"""


def declaration(field: Field) -> str:
    """A member, with the macros that a header uses for its bounds."""
    bound = f"[{_NAMES.get(field.count, field.count)}]" if field.array else ""
    return f"    {field.type} {field.name}{bound};"


def structs(layout: Layout) -> Iterator[str]:
    """The typedefs of a layout."""
    for struct in layout.structs.values():
        if struct is layout.region:
            yield "typedef char uuid[96];\n"
        yield "typedef struct {"
        for index, field in enumerate(struct.fields):
            comment = "  // the lock {" if index % 3 == 1 else ""
            yield declaration(field) + comment
        yield f"}} {struct.name};\n"


def header_of(layout: Layout) -> str:
    """A whole header that declares a layout."""
    version = layout.identity.version
    macros = (
        f"#define MAJOR_VERSION {version.major}\n#define MINOR_VERSION {version.minor}"
        if version
        else ""
    )
    top = _TOP.format(magic=layout.identity.magic, version=macros)
    return "\n".join([top, *structs(layout), _BOTTOM])


def write(folder: Path, text: str, name: str = "shared.h") -> Path:
    """A source file."""
    path = folder / name
    path.write_text(text)
    return path


def replaced(text: str, old: str, new: str) -> str:
    """A text with one place changed; a place that is not there fails the test."""
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the header"
    return text.replace(old, new)
