"""A small web server that nothing on the network can stop: bounded in time, memory and threads.

A thread serves a connection. When all are taken, the connection that has waited longest for its
client gives way to the new one, so slow or silent clients cannot keep a scrape out; only where all
of them are busy with answers is a new one refused.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path

from hami_cache.errors import ConfigError, one_line
from hami_cache.monitor.address import open_listener
from hami_cache.monitor.webexchange import Exchange
from hami_cache.monitor.webmessages import Request, Response
from hami_cache.monitor.webstream import BoundedStream
from hami_cache.node.once import Once

__all__ = ["Request", "Response", "WebServer"]

log = logging.getLogger(__name__)

GRACE_SECONDS = 0.5
"""How long `stop` lets answers that are under way finish."""

_EVICTION_SECONDS = 0.25
_ACCEPT_PAUSE = 0.1
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 20\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    b"Service Unavailable\n"
)


class Connection:
    """One client's connection, as its thread, the accepting thread and `stop` see it."""

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
        """End the connection under the thread that waits on it.

        Called on the base class: an `SSLSocket`'s own method would drop its encryption first, and
        what the thread still sends would leave in plain text.
        """
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.sock, how)


class WebServer:
    """Serves routes until stopped. It listens from construction on and answers from `start` on.

    Args:
        address: a Go listen address, ``:9394``.
        routes: by exact path.
        web_config: the exporter toolkit's web configuration file.
        max_connections: how many connections are served at a time, each on a thread.
        timeout: seconds for a request's head to arrive, and for a response to leave.

    Raises:
        ConfigError: the address or the configuration cannot be used.
    """

    def __init__(
        self,
        address: str,
        routes: Mapping[str, Callable[[Request], Response]],
        *,
        web_config: Path | None = None,
        max_connections: int = 64,
        timeout: float = 10,
    ) -> None:
        self._routes = dict(routes)
        self._timeout = timeout
        self._once = Once(log)
        if web_config is not None:
            raise ConfigError("cannot be used yet", path=web_config)
        self._listener = open_listener(address)
        self._places = threading.BoundedSemaphore(max_connections)
        self._lock = threading.Lock()
        self._open: dict[Connection, threading.Thread] = {}
        self._stopping = threading.Event()
        self._acceptor = threading.Thread(target=self._accept, name="web", daemon=True)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        port: int = self._listener.getsockname()[1]
        return port

    def start(self) -> None:
        """Begin to answer."""
        log.info("listening on port %d", self.port)
        self._acceptor.start()

    def stop(self) -> None:
        """End within a second, however slow clients are: answers under way get half of it."""
        deadline = time.monotonic() + GRACE_SECONDS
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        if self._acceptor.is_alive():
            self._acceptor.join(GRACE_SECONDS)
        self._listener.close()
        with self._lock:
            left = dict(self._open)
        for connection in left:
            connection.shut(socket.SHUT_RD)
        for thread in left.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        for connection in left:
            connection.shut(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError as error:
                if not self._stopping.is_set():
                    self._once.warn("accept", "cannot accept a connection: %s", error)
                    # Out of file descriptors, say: the client stays in the queue meanwhile.
                    self._stopping.wait(_ACCEPT_PAUSE)
                continue
            self._once.clear("accept")
            self._admit(sock)

    def _admit(self, sock: socket.socket) -> None:
        """Give a new connection a thread, or refuse it."""
        if not self._find_place():
            with contextlib.suppress(OSError), sock:
                sock.setblocking(False)
                sock.send(_REFUSAL)
            return
        connection = Connection(sock)
        thread = threading.Thread(
            target=self._serve, args=(connection,), name="web-connection", daemon=True
        )
        with self._lock:
            self._open[connection] = thread
        try:
            thread.start()
        except RuntimeError as error:
            self._once.warn("thread", "cannot serve a connection: %s", error)
            self._end(connection)

    def _find_place(self) -> bool:
        """Take one of the places, if need be from who has waited longest for its client."""
        if self._places.acquire(blocking=False):
            return True
        with self._lock:
            waiting = [(c.waiting_since, c) for c in self._open if c.waiting_since is not None]
        if waiting:
            min(waiting, key=lambda pair: pair[0])[1].shut(socket.SHUT_RDWR)
        return self._places.acquire(timeout=_EVICTION_SECONDS)

    def _serve(self, connection: Connection) -> None:
        """A connection's thread."""
        try:
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = BoundedStream(connection.sock)

            def answer(request: Request) -> Response:
                with connection.working():
                    return self._answer(request)

            Exchange(stream, answer, self._timeout).serve()
        except OSError:
            pass  # The client is slow or gone: nobody is left to tell.
        except Exception as error:
            if self._once.first(f"connection {type(error).__name__}"):
                log.exception("serving a connection failed")
        finally:
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        with self._lock:
            del self._open[connection]
            connection.sock.close()
        self._places.release()

    def _answer(self, request: Request) -> Response:
        route = self._routes.get(request.path)
        if route is None:
            return Response.plain(HTTPStatus.NOT_FOUND)
        try:
            response = route(request)
        except Exception as error:
            # Whatever goes wrong behind a route, the next request is served.
            if self._once.first(f"{request.path} {type(error).__name__}"):
                log.exception("answering %s failed", one_line(request.path))
            return Response.plain(HTTPStatus.INTERNAL_SERVER_ERROR)
        return response
