"""One connection's requests and their answers: HTTP/1.1 as scrapers and browsers speak it."""

from __future__ import annotations

import io
import urllib.parse
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

from hami_cache.monitor.webmessages import (
    WORTH_COMPRESSING,
    Request,
    Response,
    accepts_gzip,
    compressed,
)
from hami_cache.monitor.webstream import BoundedStream, HeadTooLargeError

MAX_HEAD = 16 * 1024
"""Bytes of a request line and its headers together."""

IDLE_SECONDS = 120.0
"""How long a connection may rest between two requests: longer than anybody's scrape interval."""

_MAX_PARAMETERS = 100


class Exchange(BaseHTTPRequestHandler):
    """Reads requests from a stream and writes the answers, until one side has had enough.

    The base class's constructor would own the socket; here the server does, so it is not called.

    Args:
        stream: the connection.
        answer: makes the response; never raises.
        timeout: seconds for a whole head to arrive, and for a whole response to leave.
    """

    protocol_version = default_request_version = "HTTP/1.1"

    def __init__(
        self, stream: BoundedStream, answer: Callable[[Request], Response], timeout: float
    ) -> None:
        self._stream = stream
        self._answer = answer
        self._seconds = timeout
        self.rfile = self._reader = io.BufferedReader(stream)
        self.wfile = io.BufferedWriter(stream)
        self.close_connection = True

    def serve(self) -> None:
        """Answer requests until the connection ends.

        Raises:
            OSError: the time is up, or the connection broke: nothing more can be said on it.
        """
        self._stream.allow(self._seconds, MAX_HEAD)
        while self._reader.peek(1):
            self._stream.allow(self._seconds, MAX_HEAD)
            self._serve_one()
            if self.close_connection:
                return
            self._stream.allow(IDLE_SECONDS, MAX_HEAD)

    def _serve_one(self) -> None:
        self.close_connection = True
        self.command = ""
        try:
            self.raw_requestline = self.rfile.readline()
        except HeadTooLargeError:
            self._refuse(HTTPStatus.REQUEST_URI_TOO_LONG)
            return
        if self._stream.ended or not self.parse_request() or self._stream.ended:
            # The base class takes a head that was cut off for a whole one.
            return
        if self.command not in ("GET", "HEAD"):
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, HEAD"})
            return
        try:
            request = self._request()
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        if self.request_version != self.protocol_version or _has_body(request):
            # Nobody here reads a body, so what follows on this connection would be misread.
            self.close_connection = True
        response = self._answer(request)
        self._stream.allow(self._seconds)
        self._send(response)

    def _request(self) -> Request:
        """The request as routes see it.

        Raises:
            ValueError: its target or a header makes no sense.
        """
        if self.headers.defects:
            raise ValueError
        target = urllib.parse.urlsplit(self.path)
        headers: dict[str, str] = {}
        for name, value in self.headers.items():
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        query = urllib.parse.parse_qs(
            target.query, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS
        )
        return Request(target.path or "/", headers, query)

    def _send(self, response: Response) -> None:
        body, headers = response.body, dict(response.headers)
        if len(body) > WORTH_COMPRESSING:
            headers["Vary"] = "Accept-Encoding"
            if accepts_gzip(", ".join(self.headers.get_all("Accept-Encoding", []))):
                body = compressed(body)
                headers["Content-Encoding"] = "gzip"
        # To HTTP/0.9, the base class would send no status and no headers.
        self.request_version = self.protocol_version
        self.send_response_only(response.status)
        self.send_header("Date", self.date_time_string())
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def _refuse(self, status: HTTPStatus, headers: Mapping[str, str] | None = None) -> None:
        """Answer a request that nobody should have sent, and end the connection."""
        self.close_connection = True
        self._send(Response.plain(status, headers))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what the base class could not read; its texts quote the request, so not them."""
        self._refuse(HTTPStatus(code))

    def handle_expect_100(self) -> bool:
        """Say nothing: the final answer comes at once, and no body is wanted."""
        return True


def _has_body(request: Request) -> bool:
    return (
        "transfer-encoding" in request.headers
        or request.headers.get("content-length", "0").strip() != "0"
    )
