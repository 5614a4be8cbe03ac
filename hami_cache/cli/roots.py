"""ROOT: where the container directories of a node are."""

from __future__ import annotations

import os
from pathlib import Path

from hami_cache.errors import ConfigError
from hami_cache.node.containers import ROOT_SHAPES


def hook_path(root: Path) -> Path:
    """The HOOK_PATH that a command's ROOT means: ROOT itself, or the parent of ``containers``.

    Raises:
        ConfigError: there are no container directories.
    """
    if any(os.path.isdir(root / shape) for shape in ROOT_SHAPES):
        return root
    place = root.absolute()
    if place.name == "containers" and os.path.isdir(place):
        return place.parent
    raise ConfigError(
        "no container directories there",
        path=root,
        hint="give HOOK_PATH, or the containers directory in it",
    )
