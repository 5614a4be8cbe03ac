"""What this program was built from: the package's version, and what an image build adds to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """Version, source revision and build date; "" where nobody said."""

    version: str
    revision: str
    date: str


def build_info() -> BuildInfo:
    """The running build.

    Revision and date come from ``HAMI_CACHE_REVISION`` and ``HAMI_CACHE_BUILD_DATE``, which the
    image sets when it is built.
    """
    try:
        number = version("hami-cache")
    except PackageNotFoundError:
        number = ""
    environment = os.environ
    return BuildInfo(
        number,
        environment.get("HAMI_CACHE_REVISION", ""),
        environment.get("HAMI_CACHE_BUILD_DATE", ""),
    )
