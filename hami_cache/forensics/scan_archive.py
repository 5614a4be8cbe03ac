"""Caches inside archives: streamed, nothing unpacked to disk, and no more than a bounded amount.

An archive is as hostile as its members. A kilobyte of it can stand for a megabyte, a header can
claim any length and a sparse member any size, and archives bite into themselves. So every header,
every member and the whole are bounded, and what is cut off is said.
"""

from __future__ import annotations

import gzip
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any, cast

from hami_cache.errors import SourceError
from hami_cache.forensics.scan_inputs import TAR_ENDINGS, ZIP_ENDING, Choice, without_query
from hami_cache.forensics.scan_stream import GZIP_MAGIC, PIECE, Meter, Rejoined, Stream
from hami_cache.read.source import too_large
from hami_cache.spec.specfile import MAX_REGION_BYTES

MAX_NAME = 4096
TAR_HEADER_BYTES = 1 << 20
"""What the headers of one tar member may take: long names, maps of sparse files."""

ZIP_DIRECTORY_BYTES = 16 << 20
"""What a zip archive's directory may take: about 100,000 members."""

END_MARK = bytes(tarfile.BLOCKSIZE)
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Of zip members. What the other ones take of our memory is for the archive to say."""

ENCRYPTED = 1
"""The flag of a zip member that needs a password."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one archive may cost: bytes of everything in it together, and caches."""

    expanded: int = 64 << 30
    members: int = 250_000


@dataclass(frozen=True, slots=True)
class Member:
    """A cache inside an archive: its bytes, or why it cannot be read.

    Attributes:
        name: inside the archive; "" where it is all that there is.
    """

    name: str
    data: bytes = b""
    problem: str = ""


def members(file: IO[bytes], name: str, choice: Choice, limits: Limits) -> Iterator[Member]:
    """The caches of an archive, in its order.

    Args:
        file: the archive, open at its start; of a zip archive seekable.
        name: of the archive; its ending says what it is.
        choice: which of its files are caches.
        limits: what it may cost.

    Raises:
        SourceError: it is damaged, cut off or no archive, or goes beyond a limit. What was given
            before is good.
    """
    meter = Meter(limits.expanded)
    try:
        ending = without_query(name)
        if ending.endswith(ZIP_ENDING):
            found = _zip(file, choice, meter)
        elif ending.endswith(TAR_ENDINGS):
            found = _tar(Stream(file, meter), choice, meter)
        else:
            found = _single(file)
        for count, member in enumerate(found):
            if count == limits.members:
                raise SourceError(f"more than {limits.members} caches; the rest was not read")
            yield member
    except SourceError as error:
        raise SourceError(error.message, path=name) from None
    except Exception as error:  # those parsers answer broken input with anything
        raise SourceError(f"damaged or cut off: {_reason(error)}", path=name) from None


def _single(file: IO[bytes]) -> Iterator[Member]:
    """One file compressed by gzip."""
    head = file.read(len(GZIP_MAGIC))
    if head != GZIP_MAGIC:
        raise gzip.BadGzipFile("not a gzipped file")  # GzipFile takes nothing for an empty file
    data = gzip.GzipFile(fileobj=cast(IO[bytes], Rejoined(head, file))).read(MAX_REGION_BYTES + 1)
    yield _member("", data) if len(data) <= MAX_REGION_BYTES else _too_large("", len(data))


def _member(name: str, data: bytes = b"", problem: str = "") -> Member:
    short = name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}..."
    return Member(short, data, problem)


def _too_large(name: str, size: int) -> Member:
    return _member(name, problem=too_large(size, "").message)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _base(name: str) -> str:
    return PurePosixPath(name).name


# ---- tar ----


def _tar(stream: Stream, choice: Choice, meter: Meter) -> Iterator[Member]:
    stream.allow(TAR_HEADER_BYTES)
    archive = tarfile.TarFile(fileobj=cast(Any, stream))
    while (info := archive.next()) is not None:
        cast(Any, archive).members.clear()  # it would keep them all
        # GNU tar writes a made-up path beside it, which old readers are to see.
        info.name = info.pax_headers.get("GNU.sparse.name", info.name)
        if not info.isdir() and choice.wants(_base(info.name)):
            yield _tar_member(archive, info, stream, meter)
        stream.allow(TAR_HEADER_BYTES)
    if stream.last != END_MARK:
        where = f"at byte {stream.tell()}"
        raise SourceError(f"damaged {where}" if stream.last else f"cut off {where}: no end mark")
    stream.allow(2 * PIECE)
    stream.read(PIECE)  # the padding behind the end mark; gzip's checksum comes after it


def _tar_member(
    archive: tarfile.TarFile, info: tarfile.TarInfo, stream: Stream, meter: Meter
) -> Member:
    if not info.isreg():
        kind = "a link" if info.issym() or info.islnk() else "a device or a FIFO"
        return _member(info.name, problem=f"is {kind}, not a regular file")
    if info.size > MAX_REGION_BYTES:
        return _too_large(info.name, info.size)
    if info.issparse():
        meter.spend(info.size)
    stream.allow(info.size + PIECE)
    source = archive.extractfile(info)
    assert source is not None  # it is a regular file
    return _member(info.name, source.read(info.size))


# ---- zip ----


class _Bounded:
    """A zip archive's file as `zipfile` wants it, whose directory fits into memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        limit = ZIP_DIRECTORY_BYTES
        data = self._file.read(limit + 1 if size < 0 else min(size, limit + 1))
        if len(data) > limit:
            raise SourceError(f"the directory of the archive is larger than {limit} bytes")
        return data


def _zip(file: IO[bytes], choice: Choice, meter: Meter) -> Iterator[Member]:
    with zipfile.ZipFile(cast(Any, _Bounded(file))) as archive:
        for info in archive.infolist():
            if not info.is_dir() and choice.wants(_base(info.filename)):
                yield _zip_member(archive, info, meter)


def _zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, meter: Meter) -> Member:
    name = info.filename
    if stat.S_ISLNK(info.external_attr >> 16):
        return _member(name, problem="is a link, not a regular file")
    if info.flag_bits & ENCRYPTED:
        return _member(name, problem="is encrypted")
    if info.compress_type not in METHODS:
        return _member(name, problem=f"is compressed by method {info.compress_type}, not deflate")
    if info.file_size > MAX_REGION_BYTES:
        return _too_large(name, info.file_size)
    meter.spend(info.file_size)
    try:
        with archive.open(info) as source:
            return _member(name, source.read(info.file_size))
    except Exception as error:  # the other members may be fine
        return _member(name, problem=f"damaged or cut off: {_reason(error)}")
