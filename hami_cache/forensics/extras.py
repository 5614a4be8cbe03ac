"""Packages that only some commands need: imported when they are, asked for by name when missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hami_cache.errors import ConfigError


def needed(module: str, extra: str) -> Any:
    """Import a module of an optional extra.

    Args:
        module: its full name, such as ``pyarrow.parquet``.
        extra: of this package, which installs it.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        missing = error.name or module
        raise ConfigError(
            f"this needs {missing}", hint=f"pip install 'hami-cache[{extra}]'"
        ) from None
