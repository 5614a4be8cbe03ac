"""A layout in other languages, for readers written in them.

A target is a module with a function ``render(layout) -> str``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from hami_cache.errors import ConfigError
from hami_cache.spec.layout import Layout

TARGETS: Mapping[str, str] = {
    "c": "hami_cache.toolkit.render.c",
    "go": "hami_cache.toolkit.render.go",
    "rust": "hami_cache.toolkit.render.rust",
    "kaitai": "hami_cache.toolkit.render.kaitai",
    "imhex": "hami_cache.toolkit.render.imhex",
    "construct": "hami_cache.toolkit.render.construct",
    "markdown": "hami_cache.toolkit.render.markdown",
}
"""What `layout export --to` understands."""


def render(layout: Layout, target: str) -> str:
    """A layout for one of `TARGETS`.

    Raises:
        ConfigError: there is no such target.
    """
    if target not in TARGETS:
        raise ConfigError(f"cannot export to {target!r}", hint=f"known: {', '.join(TARGETS)}")
    text = import_module(TARGETS[target]).render(layout)
    assert isinstance(text, str)
    return text
