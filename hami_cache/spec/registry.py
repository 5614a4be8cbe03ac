"""All layouts there are: the user's folder first, then the ones that come with the package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path

from hami_cache.errors import LayoutError
from hami_cache.spec import specfile
from hami_cache.spec.layout import Layout

FOLDER_VARIABLE = "HAMI_CACHE_LAYOUTS"
"""Environment variable naming a folder of layout files that is searched first."""

_PACKAGE = Path(__file__).resolve().parent.parent


def builtin_folder() -> Path:
    """Where the package's own layout files lie: inside a wheel, or beside it in a checkout."""
    inside = _PACKAGE / "_layouts"
    return inside if inside.is_dir() else _PACKAGE.parent / "layouts"


def layouts(folder: Path | str | None = None) -> Mapping[str, Layout]:
    """Every known layout by name, oldest first.

    Args:
        folder: a folder of layout files searched before the built-in one; None takes it from
            ``HAMI_CACHE_LAYOUTS``. A layout there replaces a built-in one of the same name.

    Raises:
        LayoutError: the folder or one of its files cannot be used; names file and key.
    """
    chosen = folder if folder is not None else os.environ.get(FOLDER_VARIABLE) or None
    return _load(None if chosen is None else Path(chosen))


def layout(name: str, folder: Path | str | None = None) -> Layout:
    """The layout of that name.

    Raises:
        LayoutError: there is none.
    """
    known = layouts(folder)
    if name not in known:
        raise LayoutError(f"no layout is called {name!r}", hint=f"known: {', '.join(known)}")
    return known[name]


@lru_cache(maxsize=8)
def _load(folder: Path | None) -> Mapping[str, Layout]:
    own = {} if folder is None else _folder(folder)
    found = {**_builtin(), **own}
    return dict(sorted(found.items(), key=lambda item: (item[1].order, item[0])))


@cache
def _builtin() -> Mapping[str, Layout]:
    found = _folder(builtin_folder())
    if not found:
        raise LayoutError("no layout file found", path=builtin_folder(), hint="reinstall")
    return found


def _folder(folder: Path) -> dict[str, Layout]:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".toml"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LayoutError(f"cannot list the folder of layouts: {reason}", path=folder) from None
    return {path.stem: specfile.load(path) for path in map(folder.joinpath, names)}
