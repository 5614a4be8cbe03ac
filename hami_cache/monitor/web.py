"""A small web server that nothing on the network can stop: bounded in time, memory and threads.

A thread serves a connection. When all are taken, the connection that has waited longest for its
client gives way to the new one, so slow or silent clients cannot keep a scrape out; only where all
of them are busy with answers is a new one refused. One page can occupy half of them, so a stampede
on the metrics leaves room for the probes.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from hami_cache.monitor.address import open_listener
from hami_cache.monitor.webconnection import Connection
from hami_cache.monitor.webexchange import Exchange
from hami_cache.monitor.webmessages import Request, Response
from hami_cache.monitor.webstream import BoundedStream
from hami_cache.node.once import Once

if TYPE_CHECKING:
    from hami_cache.monitor.webguard import WebGuard

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
_NOT_TLS = b"HTTP/1.0 400 Bad Request\r\n\r\nThis is an HTTPS server; an HTTP request came.\n"


class WebServer:
    """Serves routes until stopped. It listens from construction on and answers from `start` on.

    Args:
        address: a Go listen address, ``:9394``.
        routes: by exact path.
        web_config: the exporter toolkit's web configuration file.
        max_connections: how many connections are served at a time, each on a thread.
        timeout: seconds for a request's head to arrive, and for a response to leave.

    Attributes:
        port: that is listened on, also where `address` asked for any free one.

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
        share = max(1, max_connections // 2)
        self._routes = {
            path: (route, threading.BoundedSemaphore(share)) for path, route in routes.items()
        }
        self._timeout = timeout
        self._once = Once(log)
        self._guard: WebGuard | None = None
        if web_config is not None:
            from hami_cache.monitor.webguard import WebGuard

            self._guard = WebGuard(web_config)
        self._listener = open_listener(address)
        self.port: int = self._listener.getsockname()[1]
        self._places = threading.BoundedSemaphore(max_connections)
        self._lock = threading.Lock()
        self._open: dict[Connection, threading.Thread] = {}
        self._stopping = threading.Event()
        self._acceptor = threading.Thread(target=self._accept, name="web", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        tls = " with TLS" if self._guard is not None and self._guard.tls else ""
        log.info("listening on port %d%s", self.port, tls)
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
        for thread in self._shut_all(socket.SHUT_RD):
            thread.join(max(0.0, deadline - time.monotonic()))
        self._shut_all(socket.SHUT_RDWR)

    def _shut_all(self, how: int) -> list[threading.Thread]:
        """End every connection; its threads."""
        with self._lock:
            for connection in self._open:
                connection.shut(how)
            return list(self._open.values())

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
        else:
            self._once.clear("thread")

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
            if self._guard is not None and self._guard.tls:
                self._secure(self._guard, connection)
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

    def _secure(self, guard: WebGuard, connection: Connection) -> None:
        """Speak TLS from here on.

        Raises:
            OSError: it cannot be spoken, or the client's certificate is not good enough.
        """
        context = guard.context()
        if context is None:
            raise ConnectionRefusedError
        with self._lock:
            connection.sock = secured = context.wrap_socket(
                connection.sock, server_side=True, do_handshake_on_connect=False
            )
        secured.settimeout(self._timeout)
        try:
            secured.do_handshake()
        except ssl.SSLError as error:
            log.debug("a TLS handshake failed: %s", error.reason)
            if error.reason == "HTTP_REQUEST":
                socket.socket.send(secured, _NOT_TLS)
            raise
        if not guard.admits(secured):
            log.debug("a client certificate has no allowed name")
            raise PermissionError

    def _end(self, connection: Connection) -> None:
        with self._lock:
            del self._open[connection]
            connection.sock.close()
        self._places.release()

    def _answer(self, request: Request) -> Response:
        if self._guard is None:
            return self._respond(request)
        return self._guard.answer(request, self._respond)

    def _respond(self, request: Request) -> Response:
        found = self._routes.get(request.path)
        if found is None:
            return Response.plain(HTTPStatus.NOT_FOUND)
        route, share = found
        if not share.acquire(blocking=False):
            return Response.plain(HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "1"})
        try:
            response = route(request)
        except Exception:
            # Whatever goes wrong behind a route, the next request is served.
            if self._once.first(request.path):
                log.exception("answering %s failed", request.path)
            return Response.plain(HTTPStatus.INTERNAL_SERVER_ERROR)
        finally:
            share.release()
        self._once.clear(request.path)
        return response
