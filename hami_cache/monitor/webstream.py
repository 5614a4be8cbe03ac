"""A connection's bytes, bounded: nobody reads or writes longer, or more, than allowed."""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


class HeadTooLargeError(http.client.HTTPException):
    """A request's head has more bytes than anybody's should."""


class BoundedStream(io.RawIOBase):
    """A socket as a stream with a deadline for all of its operations together.

    A time limit for each operation would let a client that sends a byte now and then stay for ever.

    Attributes:
        ended: the other side will send nothing more.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._deadline = 0.0
        self._budget = 0
        self.ended = False

    def allow(self, seconds: float, budget: int = 0) -> None:
        """Allow this many seconds from now and about this many bytes to read."""
        self._deadline = time.monotonic() + seconds
        self._budget = budget

    def hurry(self) -> None:
        """Let the socket's next operation wait until the deadline.

        Raises:
            TimeoutError: it is past.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)

    def readable(self) -> bool:
        """It is."""
        return True

    def writable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read what is there, waiting for the first byte of it.

        Raises:
            HeadTooLargeError: the bytes are used up.
            OSError: the time is up, or the connection broke.
        """
        if self._budget <= 0:
            raise HeadTooLargeError
        self.hurry()
        count = self._sock.recv_into(buffer)
        self._budget -= count
        self.ended = count == 0
        return count

    def write(self, data: ReadableBuffer) -> int:
        """Send everything.

        Raises:
            OSError: the time is up, or the connection broke.
        """
        view = memoryview(data)
        sent = 0
        while sent < len(view):
            self.hurry()
            sent += self._sock.send(view[sent:])
        return sent
