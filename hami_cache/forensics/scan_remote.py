"""Files behind URLs, by fsspec. Needs the extra ``remote``; s3 and gs need their own drivers too.

A store may answer anything and its drivers raise whatever they like. Nothing more than a bounded
amount is read, and every failure becomes one line about the URL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import IO, Any, cast

from hami_cache.errors import ConfigError, SourceError
from hami_cache.forensics.extras import needed
from hami_cache.forensics.scan_inputs import Choice, Place, kind_of
from hami_cache.read.source import too_large
from hami_cache.spec.specfile import MAX_REGION_BYTES

PATTERN = re.compile(r"[*[]")
"""Makes a URL a pattern; a question mark begins its query."""


def find(url: str, choice: Choice) -> Iterator[Place]:
    """Every file and archive that a URL names: a file, a directory, or a pattern.

    Raises:
        ConfigError: fsspec or the driver for this kind of URL is missing.
    """
    system, path = _system(url)
    try:
        if PATTERN.search(path):
            names = sorted(system.glob(path))
        elif url.endswith("/") or (system.isdir(path) and not system.isfile(path)):
            names = sorted(system.find(path))
            names = [n for n in names if choice.wants(_base(n)) or choice.looks_into(_base(n))]
        else:
            names = [path]
    except Exception as error:
        yield Place(url, "trouble", f"cannot list: {_reason(error)}")
        return
    if not names:
        yield Place(url, "trouble", "there is no cache")
    for name in map(system.unstrip_protocol, names):
        yield Place(name, kind_of(name))


def read(url: str) -> bytes:
    """The content of a file of at most 16 MiB.

    Raises:
        SourceError: it cannot be read, or is too large.
        ConfigError: as for `find`.
    """
    with opened(url) as file:
        try:
            data = file.read(MAX_REGION_BYTES + 1)
        except Exception as error:
            raise _cannot("read", url, error) from None
    if len(data) > MAX_REGION_BYTES:
        raise too_large(len(data), url)
    return data


def opened(url: str) -> IO[bytes]:
    """A file, open for reading.

    Raises:
        SourceError: it cannot be opened.
        ConfigError: as for `find`.
    """
    system, path = _system(url)
    try:
        return cast(IO[bytes], system.open(path, "rb"))
    except Exception as error:
        raise _cannot("open", url, error) from None


@contextmanager
def written(url: str) -> Iterator[IO[bytes]]:
    """A file to write, which is there once it is whole.

    Raises:
        SourceError: it cannot be written.
        ConfigError: as for `find`.
    """
    system, path = _system(url)
    try:
        # A file system has one transaction at a time: files that are written together share it.
        with nullcontext() if system._intrans else system.transaction:
            system.makedirs(system._parent(path), exist_ok=True)
            with system.open(path, "wb") as file:
                yield file
    except (SourceError, ConfigError):
        raise
    except Exception as error:
        raise _cannot("write", url, error) from None


def _system(url: str) -> tuple[Any, str]:
    """The file system that a URL belongs to, and its path there."""
    core = needed("fsspec.core", "remote")
    try:
        system, path = core.url_to_fs(url)
    except Exception as error:  # ImportError says which driver to install
        raise ConfigError(_reason(error), path=url, hint="see docs/scan.md") from None
    return system, path


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _cannot(verb: str, url: str, error: Exception) -> SourceError:
    return SourceError(f"cannot {verb}: {_reason(error)}", path=url)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
