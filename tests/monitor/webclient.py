"""Talking to a web server as good and bad clients do."""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hami_cache.monitor.web import Request, Response, WebServer

PATIENCE = 20.0
"""Seconds that a client of a test waits before it takes the server for hung."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


def get(
    port: int,
    path: str = "/",
    *,
    headers: Mapping[str, str] | None = None,
    method: str = "GET",
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
) -> Answer:
    connection = (
        http.client.HTTPConnection(host, port, timeout=PATIENCE)
        if tls is None
        else http.client.HTTPSConnection(host, port, timeout=PATIENCE, context=tls)
    )
    with contextlib.closing(connection):
        return ask(connection, path, headers=headers, method=method)


def ask(
    connection: http.client.HTTPConnection,
    path: str = "/",
    *,
    headers: Mapping[str, str] | None = None,
    method: str = "GET",
) -> Answer:
    """One request on a connection that stays open."""
    connection.request(method, path, headers=dict(headers or {}))
    response = connection.getresponse()
    body = response.read()
    return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, body)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def exchange(port: int, sent: bytes) -> bytes:
    """Send bytes, say that no more come, and take all that comes back."""
    with connect(port) as sock:
        with contextlib.suppress(OSError):
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
        return read_all(sock)


def read_all(sock: socket.socket) -> bytes:
    """Until the server closes; a reset ends it too."""
    received = bytearray()
    with contextlib.suppress(ConnectionError):
        while chunk := sock.recv(65536):
            received += chunk
    return bytes(received)


def wait_until_closed(port: int) -> None:
    """Until nobody listens there any more."""
    with contextlib.suppress(ConnectionError):
        while True:
            connect(port).close()


def basic(user: str, password: str) -> dict[str, str]:
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


def hello(_request: Request) -> Response:
    return Response(200, "text/plain; charset=utf-8", b"hello\n")


@contextlib.contextmanager
def serving(
    routes: Mapping[str, Callable[[Request], Response]] | None = None,
    *,
    address: str = "127.0.0.1:0",
    web_config: Path | None = None,
    max_connections: int = 64,
    timeout: float = 10,
) -> Iterator[WebServer]:
    server = WebServer(
        address,
        {"/": hello} if routes is None else routes,
        web_config=web_config,
        max_connections=max_connections,
        timeout=timeout,
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()


def make_certificate(directory: Path, name: str, *extra: str) -> Path:
    """A fresh self-signed certificate for localhost, with its key, in one file."""
    key, cert = directory / f"{name}.key", directory / f"{name}.crt"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "30", "-subj", f"/CN={name}", "-keyout", key, "-out", cert),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", *extra),
        ],
        check=True,
        capture_output=True,
    )
    both = directory / f"{name}.pem"
    both.write_bytes(key.read_bytes() + cert.read_bytes())
    return both
