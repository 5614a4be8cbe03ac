"""Opening a hostile file: a tenant owns the directory, every entry may be anything.

Regular files only, checked on the open descriptor; a symbolic link is followed only when asked; a
FIFO never blocks; a size that no cache has is refused before anything is mapped or read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hami_cache.errors import SourceError
from hami_cache.spec.specfile import MAX_REGION_BYTES

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISLNK, "a symbolic link"),
)


class OpenFile(NamedTuple):
    """An open descriptor and what it is: owner closes it."""

    fd: int
    size: int
    identity: tuple[int, int]
    links: int


def open_regular(
    path: Path | str,
    *,
    follow: bool = False,
    writable: bool = False,
    dir_fd: int | None = None,
    limit: int = MAX_REGION_BYTES,
) -> OpenFile:
    """Open a regular file of at most 16 MiB.

    Args:
        path: the file; relative to `dir_fd` when given.
        follow: accept a symbolic link as the last component.
        writable: open for reading and writing.
        dir_fd: a directory descriptor to open below.
        limit: another largest size in bytes, for files that are no caches themselves.

    Raises:
        SourceError: it is not there, not readable, not a regular file, or too large.
    """
    flags = os.O_RDWR if writable else os.O_RDONLY
    flags |= os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:
        fd = os.open(path, flags, dir_fd=dir_fd)
    except OSError as error:
        raise _cannot_open(path, error, follow, dir_fd) from None
    except ValueError:
        raise SourceError("a path cannot contain a NUL byte", path=path) from None
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise _wrong_kind(path, info.st_mode)
        if info.st_size > limit:
            raise too_large(info.st_size, path, limit)
    except BaseException:
        os.close(fd)
        raise
    return OpenFile(fd, info.st_size, (info.st_dev, info.st_ino), info.st_nlink)


def read_all(path: Path | str, *, follow: bool = False) -> bytes:
    """The content of a file, opened as `open_regular` does, as `bytes`: a copy of `read_content`.

    Raises:
        SourceError: as `open_regular`, or reading fails.
    """
    return bytes(read_content(path, follow=follow))


def read_content(path: Path | str, *, follow: bool = False) -> bytearray:
    """The content of a file, opened as `open_regular` does.

    Raises:
        SourceError: as `open_regular`, or reading fails.
    """
    file = open_regular(path, follow=follow)
    try:
        return read_open(file, path)
    finally:
        os.close(file.fd)


def read_open(file: OpenFile, path: Path | str) -> bytearray:
    """The content of an open file, up to the size it had when it was opened; shorter if it was cut.

    Raises:
        SourceError: reading fails.
    """
    # The holes' zeros cost nothing until they are touched; a copy of them would cost more than all
    # the rest of opening a file.
    content = bytearray(file.size)
    try:
        for start, stop in data_extents(file.fd, file.size):
            while start < stop:
                with memoryview(content) as view:
                    count = os.preadv(file.fd, [view[start:stop]], start)
                if count == 0:
                    return content[:start]
                start += count
    except OSError as error:
        raise SourceError(f"cannot read: {error.strerror}", path=path) from None
    return content


def data_extents(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that are no holes, as far as its file system knows.

    A real cache is a few kilobytes of data in 2 MB of holes. Reading the holes would cost time, and
    page cache for every one of them.
    """
    start = stop = 0
    while stop < size:
        try:
            start = os.lseek(fd, stop, os.SEEK_DATA)
            stop = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # nothing but a hole up to the end
            start, stop = stop, size  # a file system that does not know
        if start < size:
            yield start, min(stop, size)


def too_large(size: int, path: Path | str, limit: int = MAX_REGION_BYTES) -> SourceError:
    """The error about a file of more bytes than `limit`."""
    return SourceError(
        f"{size} bytes: no cache is larger than {limit}",
        path=path,
        hint="is this the right file?",
    )


def _wrong_kind(path: Path | str, mode: int) -> SourceError:
    kind = next((name for test, name in _KINDS if test(mode)), "not a regular file")
    return SourceError(f"is {kind}, not a regular file", path=path, hint="give a cache file")


def _cannot_open(path: Path | str, error: OSError, follow: bool, dir_fd: int | None) -> SourceError:
    if error.errno == errno.ELOOP and not follow:
        return SourceError("is a symbolic link", path=path, hint="use --follow to read its target")
    if error.errno == errno.ENXIO:
        try:
            mode = (
                os.lstat(path).st_mode if dir_fd is None else os.stat(path, dir_fd=dir_fd).st_mode
            )
        except OSError:
            mode = 0
        return _wrong_kind(path, mode)
    return SourceError(f"cannot open: {error.strerror}", path=path)
