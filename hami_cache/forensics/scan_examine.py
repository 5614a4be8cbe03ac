"""From a place to its rows, inside one process."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from hami_cache.errors import SourceError
from hami_cache.forensics.anomalies import Circumstances
from hami_cache.forensics.scan_archive import Limits, Member, members
from hami_cache.forensics.scan_content import Content, Workspace, squeeze
from hami_cache.forensics.scan_inputs import Choice, Place, is_url
from hami_cache.forensics.scan_row import Row, examine, unopened
from hami_cache.read.source import open_regular
from hami_cache.spec import registry

SEPARATOR = "::"
"""Between an archive's name and a member's."""

ANY_SIZE = 1 << 63


@dataclass(frozen=True, slots=True)
class Settings:
    """What a scan goes by, the same in every process.

    Attributes:
        now: when the files were as they are, in seconds since 1970.
        layouts: a folder of layout files searched first.
        choice: what counts inside directories and archives.
        limits: what one archive may cost.
    """

    now: float
    layouts: Path | None = None
    choice: Choice = field(default_factory=Choice)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Packed:
    """A member of an archive on its way to another process: its content, or why there is none."""

    file: str
    content: Content | None
    problem: str = ""


class Examiner:
    """Examines one file after another.

    Args:
        settings: of the scan.

    Raises:
        LayoutError: a layout file is wrong.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known = registry.layouts(settings.layouts)
        self._circumstances = Circumstances(settings.now)
        self._workspace = Workspace()

    def rows(self, place: Place) -> Iterator[Row]:
        """The rows of a place: one of a file, one for every cache of an archive."""
        if place.kind == "trouble":
            yield unopened(place.name, place.problem)
        elif place.kind == "file":
            yield self._file(place.name)
        else:
            for packed in unpack(place.name, self._settings):
                yield self.packed(packed)

    def packed(self, packed: Packed) -> Row:
        """The row of a member of an archive."""
        if packed.content is None:
            return unopened(packed.file, packed.problem)
        return self._row(packed.file, self._workspace.unfold(packed.content))

    def _file(self, name: str) -> Row:
        try:
            return self._row(name, self._read(name))
        except SourceError as error:
            return unopened(name, error.message)

    def _read(self, name: str) -> memoryview:
        if is_url(name):
            from hami_cache.forensics import scan_remote

            return memoryview(scan_remote.read(name))
        file = open_regular(name, follow=self._settings.choice.follow)
        try:
            return self._workspace.load(file, name)
        finally:
            os.close(file.fd)

    def _row(self, name: str, data: memoryview) -> Row:
        return examine(name, data, self._known, self._circumstances)


def unpack(archive: str, settings: Settings) -> Iterator[Packed]:
    """The caches of an archive, and at the end what is wrong with the archive itself, if anything.

    Args:
        archive: a path or a URL.
        settings: of the scan.
    """
    try:
        with _opened(archive, settings.choice.follow) as file:
            for member in members(file, archive, settings.choice, settings.limits):
                yield _pack(archive, member)
    except SourceError as error:
        yield Packed(archive, None, error.message)


def _pack(archive: str, member: Member) -> Packed:
    name = f"{archive}{SEPARATOR}{member.name}" if member.name else archive
    if member.problem:
        return Packed(name, None, member.problem)
    return Packed(name, squeeze(member.data))


def _opened(archive: str, follow: bool) -> IO[bytes]:
    if is_url(archive):
        from hami_cache.forensics import scan_remote

        return scan_remote.opened(archive)
    file = open_regular(archive, follow=follow, limit=ANY_SIZE)
    return io.BufferedReader(io.FileIO(file.fd), 1 << 18)
