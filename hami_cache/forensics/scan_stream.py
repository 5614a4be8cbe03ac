"""An archive's bytes as its parser may have them: forward only, and never more than agreed."""

from __future__ import annotations

import gzip
from typing import IO, cast

from hami_cache.errors import SourceError

PIECE = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"


class Meter:
    """Counts what an archive expands to.

    Args:
        limit: bytes; more is an error.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._spent = 0

    def spend(self, count: int) -> None:
        """Count some bytes.

        Raises:
            SourceError: they are too many by now.
        """
        self._spent += count
        if self._spent > self._limit:
            raise SourceError(f"expands to more than {self._limit} bytes; the rest was not read")


class Stream:
    """A tar archive's uncompressed bytes as `tarfile` wants them.

    Args:
        file: the archive, compressed by gzip or not.
        meter: of everything that is read or skipped.

    Attributes:
        last: what the last call read.
    """

    def __init__(self, file: IO[bytes], meter: Meter) -> None:
        head = file.read(len(GZIP_MAGIC))
        whole = cast(IO[bytes], Rejoined(head, file))
        compressed = head == GZIP_MAGIC
        self._file = cast(IO[bytes], gzip.GzipFile(fileobj=whole)) if compressed else whole
        self._skippable = not compressed and file.seekable()
        self._meter = meter
        self._position = 0
        self._allowance = 0
        self.last = b""

    def allow(self, count: int) -> None:
        """Set how many bytes may be read from here on; skipping is free."""
        self._allowance = count

    def read(self, size: int) -> bytes:
        """The next bytes; fewer at the end.

        Raises:
            SourceError: more than allowed.
        """
        self._allowance -= size
        if size < 0 or self._allowance < 0:
            raise SourceError(f"a header at byte {self._position} is too long")
        self.last = self._take(size)
        return self.last

    def tell(self) -> int:
        """The position in the uncompressed archive."""
        return self._position

    def seek(self, position: int) -> int:
        """Skip up to a position.

        Raises:
            SourceError: it lies behind us.
        """
        if position < self._position:
            raise SourceError(f"a header before byte {self._position} leads backwards")
        if self._skippable:
            self._position = self._file.seek(position)
        while self._position < position:
            if not self._take(min(position - self._position, PIECE)):
                break
        return self._position

    def _take(self, size: int) -> bytes:
        data = self._file.read(size)
        self._position += len(data)
        self._meter.spend(len(data))
        return data


class Rejoined:
    """A stream of which the first bytes were read already."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int) -> bytes:
        """The next bytes; fewer at the end."""
        head, self._head = self._head[:size], self._head[size:]
        return head + self._rest.read(size - len(head)) if head else self._rest.read(size)

    def seek(self, position: int) -> int:
        """Go anywhere, if the stream can."""
        self._head = b""
        return self._rest.seek(position)
