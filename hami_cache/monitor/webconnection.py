"""One client's connection, as its thread, the accepting thread and the stopping one see it."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator


class Connection:
    """A connection that is served.

    Attributes:
        sock: changes once, when TLS begins.
        waiting_since: since when it waits for its client; None while an answer is made.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.waiting_since: float | None = time.monotonic()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """While its thread makes an answer, it waits for no client."""
        self.waiting_since = None
        try:
            yield
        finally:
            self.waiting_since = time.monotonic()

    def shut(self, how: int) -> None:
        """End the connection under the thread that waits on it; with the server's lock held.

        Called on the base class: an `SSLSocket`'s own method would drop its encryption first, and
        what the thread still sends would leave in plain text.
        """
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.sock, how)
