"""A first look at a file: what is it? Starts fast, without numpy and the native reader."""

from __future__ import annotations

from pathlib import Path

from hami_cache.errors import NotInitialisedError, UnknownLayoutError
from hami_cache.read.source import read_content
from hami_cache.spec import registry
from hami_cache.spec.identify import Identification
from hami_cache.spec.identify import identify as identify_content


def identify(
    source: Path | str | bytes, *, layouts: Path | str | None = None, follow: bool = False
) -> Identification:
    """Say which layout a cache file, or its bytes, have, and how we know.

    Args:
        source: a path, or the whole content.
        layouts: a folder of layout files searched first.
        follow: accept a symbolic link.

    Raises:
        SourceError: the file cannot be opened safely.
        LayoutError: a layout file is wrong.
    """
    known = registry.layouts(layouts)
    content = source if isinstance(source, bytes) else read_content(source, follow=follow)
    return identify_content(content, known)


def refusal(
    found: Identification, path: Path | str | None = None
) -> UnknownLayoutError | NotInitialisedError:
    """The error that says why a file of this identification cannot be read."""
    if found.verdict == "not_initialised":
        return NotInitialisedError(
            f"not initialised yet: {found.detail}",
            path=path,
            hint="try again once CUDA has started in the container",
        )
    return UnknownLayoutError(found.detail, path=path)
