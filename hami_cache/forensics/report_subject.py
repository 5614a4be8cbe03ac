"""One file as a report needs it: everything that is known about it, or why nothing is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hami_cache.errors import NotInitialisedError, SourceError, UnknownLayoutError
from hami_cache.forensics.anomalies import Circumstances, Diagnosis, diagnose
from hami_cache.model import Snapshot
from hami_cache.read.cache import Engine, open_cache
from hami_cache.read.look import identify
from hami_cache.read.source import read_all
from hami_cache.spec.identify import Identification
from hami_cache.spec.layout import Layout


@dataclass(frozen=True, slots=True)
class Reading:
    """A file that could be read."""

    layout: Layout
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Subject:
    """One file.

    Attributes:
        size: in bytes.
        found: what it was taken for.
        diagnosis: what is wrong with it.
        reading: None where no layout explains it, or it is not initialised.
    """

    file: str
    size: int
    found: Identification
    diagnosis: Diagnosis
    reading: Reading | None


@dataclass(frozen=True, slots=True)
class Unopened:
    """A file that could not be opened, and why."""

    file: str
    error: str


def examine(
    path: Path | str,
    circumstances: Circumstances,
    *,
    layouts: Path | None = None,
    follow: bool = False,
    engine: Engine = "native",
) -> Subject | Unopened:
    """Look at one file.

    Args:
        path: a regular file.
        circumstances: the time, and the host's processes.
        layouts: a folder of layout files searched first.
        follow: accept a symbolic link.
        engine: as for `open_cache`.

    Raises:
        LayoutError: a layout file is wrong.
    """
    try:
        diagnosis = diagnose(path, circumstances, layouts=layouts, follow=follow, engine=engine)
        try:
            with open_cache(path, layouts=layouts, follow=follow, engine=engine) as cache:
                reading = Reading(cache.layout, cache.snapshot())
                return Subject(str(path), cache.file_size, cache.identification, diagnosis, reading)
        except (NotInitialisedError, UnknownLayoutError):
            data = read_all(path, follow=follow)
            found = identify(data, layouts=layouts)
            return Subject(str(path), len(data), found, diagnosis, None)
    except SourceError as error:
        return Unopened(str(path), error.message)
