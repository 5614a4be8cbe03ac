"""The file of a recording: frames, appended one by one, each whole or not there.

A header, then frames: their length and checksum (32 bits each, little-endian), then the payload: a
letter and a piece of a deflate stream that holds JSON. Frame ``K`` begins a new stream, ``D`` goes
on with it, so that what repeats from frame to frame costs next to nothing. Every frame is one write
and ends at a flush: whoever is killed leaves whole frames and at most the beginning of one more,
and whoever reads meanwhile sees the same.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple

from hami_cache.errors import ConfigError, HamiCacheError
from hami_cache.read.source import open_regular

MAGIC = b"hami-cache history 1\n"
FRAME = struct.Struct("<II")
MAX_PAYLOAD = 64 << 20
"""Bytes of one frame; more is damage."""

MAX_MESSAGE = 256 << 20
"""Bytes of JSON that one frame may stand for."""

ANY_SIZE = 1 << 63

Kind = Literal["K", "D"]


class HistoryError(HamiCacheError):
    """A file that is no recording, or a damaged one."""


class Frame(NamedTuple):
    """One frame: where it begins, whether it can be read without those before, and its JSON."""

    offset: int
    kind: Kind
    message: Any


class FrameWriter:
    """Appends frames to a file. A context manager.

    A file that is there already is gone on with; the beginning of a frame that a killed writer left
    at its end is cut off.

    Args:
        path: the file.

    Raises:
        HistoryError: it is there and is no recording, or a damaged one.
        ConfigError: it cannot be written, or somebody else writes it.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._deflate = zlib.compressobj()
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY, 0o644)
        except OSError as error:
            raise ConfigError(f"cannot write: {error.strerror}", path=path) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._end = self._sound_end()
            os.ftruncate(self._fd, self._end)
        except BlockingIOError:
            self.close()
            raise ConfigError("is being written by another recorder", path=path) from None
        except OSError as error:
            self.close()
            raise ConfigError(f"cannot write: {error.strerror}", path=path) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> FrameWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    @property
    def size(self) -> int:
        """Bytes of the file so far."""
        return self._end

    def append(self, kind: Kind, message: Any) -> None:
        """Append one frame.

        Raises:
            ConfigError: it cannot be written. The file is as it was; only a ``K`` may follow.
        """
        if kind == "K":
            self._deflate = zlib.compressobj()
        text = json.dumps(message, separators=(",", ":")).encode()
        payload = kind.encode() + self._deflate.compress(text)
        payload += self._deflate.flush(zlib.Z_SYNC_FLUSH)
        self._write(FRAME.pack(len(payload), zlib.crc32(payload)) + payload)

    def _sound_end(self) -> int:
        """Where the last whole frame ends; the header is written if there is none."""
        size = os.fstat(self._fd).st_size
        if size < len(MAGIC) and MAGIC.startswith(os.pread(self._fd, size, 0)):
            os.ftruncate(self._fd, 0)
            self._end = 0
            self._write(MAGIC)
            return self._end
        end = len(MAGIC)
        for offset, payload in _payloads(self._fd, self._path):
            end = offset + FRAME.size + len(payload)
        return end

    def _write(self, data: bytes) -> None:
        try:
            written = os.pwrite(self._fd, data, self._end)
        except OSError as error:
            raise ConfigError(f"cannot write: {error.strerror}", path=self._path) from None
        if written < len(data):
            os.ftruncate(self._fd, self._end)
            raise ConfigError("cannot write: no space left", path=self._path)
        self._end += len(data)


def frames(path: Path | str) -> Iterator[Frame]:
    """The whole frames of a file, also while it is being written.

    Raises:
        SourceError: it cannot be opened.
        HistoryError: it is no recording, or damaged; what was given before is sound.
    """
    file = open_regular(path, follow=True, limit=ANY_SIZE)
    try:
        inflate = zlib.decompressobj()
        for offset, payload in _payloads(file.fd, path):
            kind: Kind = "K" if payload[:1] == b"K" else "D"
            if kind == "K":
                inflate = zlib.decompressobj()
            try:
                text = inflate.decompress(payload[1:], MAX_MESSAGE)
                if inflate.unconsumed_tail:
                    raise ValueError("too long")
                yield Frame(offset, kind, json.loads(text))
            except (zlib.error, ValueError, RecursionError) as error:
                raise HistoryError(f"damaged: {error}", path=path, offset=offset) from None
    finally:
        os.close(file.fd)


def _payloads(fd: int, path: Path | str) -> Iterator[tuple[int, bytes]]:
    """The offset and payload of every whole frame of an open file."""
    if os.pread(fd, len(MAGIC), 0) != MAGIC:
        raise HistoryError("is no recording of hami-cache", path=path)
    offset = len(MAGIC)
    while len(head := os.pread(fd, FRAME.size, offset)) == FRAME.size:
        length, checksum = FRAME.unpack(head)
        if not 0 < length <= MAX_PAYLOAD:
            raise HistoryError(f"damaged: a frame of {length} bytes", path=path, offset=offset)
        payload = os.pread(fd, length, offset + FRAME.size)
        if len(payload) < length:
            return  # still being written, or left by a writer that was killed
        if zlib.crc32(payload) != checksum:
            raise HistoryError("damaged: a wrong checksum", path=path, offset=offset)
        yield offset, payload
        offset += FRAME.size + length
