"""The native reader, built from native/ by cffi; used through `hami_cache.read.seqlock` alone."""

from typing import Any

ffi: Any
lib: Any
