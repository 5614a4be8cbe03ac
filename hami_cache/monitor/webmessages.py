"""What a route of the web server is asked, and what it answers."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

TEXT = "text/plain; charset=utf-8"

WORTH_COMPRESSING = 1024
"""Bytes: smaller bodies travel as they are."""

_ENCODING = re.compile(r"\s*(gzip|\*)\s*(?:;\s*q=([0-9.]+)\s*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Request:
    """A GET or HEAD request.

    Attributes:
        path: without the query, as it was sent (not percent-decoded).
        headers: by lower-case name; what was sent several times is joined with commas.
        query: the decoded query parameters, each with all its values.
    """

    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response; the server adds Date, Content-Length and compression."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def plain(cls, status: HTTPStatus, headers: Mapping[str, str] | None = None) -> Response:
        """A status that says it all: its phrase is the body."""
        return cls(status, TEXT, f"{status.phrase}\n".encode(), headers or {})


Route = Callable[[Request], Response]


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether a client that sent this Accept-Encoding can read gzip."""
    accepted = {}
    for part in accept_encoding.split(","):
        match = _ENCODING.fullmatch(part)
        if match is not None:
            accepted[match[1].lower()] = match[2] is None or match[2].strip("0.") != ""
    return accepted.get("gzip", accepted.get("*", False))


def compressed(body: bytes) -> bytes:
    """The body in gzip's fastest level: metrics shrink tenfold, and a scrape has to wait for it."""
    return gzip.compress(body, compresslevel=1, mtime=0)
