"""Reads HAMi's shared GPU accounting caches, whatever their layout.

The stable face of the library; everything else may change. Names are loaded when first used, so
that commands which need little start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hami_cache.absent import Absent, AbsentValueError
    from hami_cache.errors import (
        ConfigError,
        FieldError,
        HamiCacheError,
        LayoutError,
        NotInitialisedError,
        SourceError,
        UnknownLayoutError,
    )
    from hami_cache.model import Anomaly, Device, Header, MemoryUse, Slot, Snapshot
    from hami_cache.read.cache import Cache, open_cache, read_figures
    from hami_cache.read.figures import Figures
    from hami_cache.read.look import identify
    from hami_cache.read.seqlock import FIGURES, Bounds
    from hami_cache.spec.identify import Identification
    from hami_cache.spec.layout import Layout
    from hami_cache.spec.registry import layouts

_HOMES = {
    "hami_cache.absent": ("Absent", "AbsentValueError"),
    "hami_cache.errors": (
        "ConfigError",
        "FieldError",
        "HamiCacheError",
        "LayoutError",
        "NotInitialisedError",
        "SourceError",
        "UnknownLayoutError",
    ),
    "hami_cache.model": ("Anomaly", "Device", "Header", "MemoryUse", "Slot", "Snapshot"),
    "hami_cache.read.cache": ("Cache", "open_cache", "read_figures"),
    "hami_cache.read.look": ("identify",),
    "hami_cache.read.figures": ("Figures",),
    "hami_cache.read.seqlock": ("FIGURES", "Bounds"),
    "hami_cache.spec.identify": ("Identification",),
    "hami_cache.spec.layout": ("Layout",),
    "hami_cache.spec.registry": ("layouts",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "FIGURES",
    "Absent",
    "AbsentValueError",
    "Anomaly",
    "Bounds",
    "Cache",
    "ConfigError",
    "Device",
    "FieldError",
    "Figures",
    "HamiCacheError",
    "Header",
    "Identification",
    "Layout",
    "LayoutError",
    "MemoryUse",
    "NotInitialisedError",
    "Slot",
    "Snapshot",
    "SourceError",
    "UnknownLayoutError",
    "identify",
    "layouts",
    "open_cache",
    "read_figures",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
