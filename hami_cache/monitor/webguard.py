"""A web configuration in force: read again when its files change, as the exporter toolkit does."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable, Hashable
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Generic, TypeVar

from hami_cache.errors import ConfigError
from hami_cache.monitor.webauth import BasicAuth, RateLimiter
from hami_cache.monitor.webconfig import WebConfig, load_web_config
from hami_cache.monitor.webcontext import is_allowed, make_context
from hami_cache.monitor.webmessages import Request, Response, Route
from hami_cache.monitor.webtls import TlsSettings
from hami_cache.node.once import Once

T = TypeVar("T")

log = logging.getLogger(__name__)


class WebGuard:
    """Stands before the routes and says who may pass.

    The file is looked at for every request and every TLS handshake; it is read again when it
    changed. While it, or a file that it names, cannot be used, nobody passes. Whether TLS is spoken
    and how fast requests may come is decided once, at construction.

    Args:
        path: the file.

    Raises:
        ConfigError: it cannot be used now.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._once = Once(log)
        self._config = Fresh[WebConfig]()
        self._context = Fresh[ssl.SSLContext]()
        config = self._newest()
        self._auth = BasicAuth() if config.users else None
        self._limiter = RateLimiter(config.rate_limit) if config.rate_limit else None
        self.tls = config.tls is not None
        if config.tls is not None:
            self._newest_context(config.tls)

    def context(self) -> ssl.SSLContext | None:
        """For the next handshake; None where there can be none now."""
        try:
            settings = self._newest().tls
            if settings is None:
                raise ConfigError("TLS is gone from it, which needs a restart", path=self._path)
            return self._newest_context(settings)
        except ConfigError as error:
            self._complain(error)
            return None

    def admits(self, connection: ssl.SSLSocket) -> bool:
        """Whether the certificate of a client, after the handshake, has an allowed name."""
        try:
            settings = self._newest().tls
        except ConfigError as error:
            self._complain(error)
            return False
        allowed = None if settings is None else settings.allowed_sans
        return allowed is None or is_allowed(connection.getpeercert(), allowed)

    def answer(self, request: Request, route: Route) -> Response:
        """The route's response with the configured headers, or why there is none."""
        try:
            config = self._newest()
            refusal = self._refuse(config, request)
        except ConfigError as error:
            self._complain(error)
            return Response.plain(HTTPStatus.INTERNAL_SERVER_ERROR)
        self._once.clear("config")
        response = route(request) if refusal is None else refusal
        return replace(response, headers={**response.headers, **config.headers})

    def _refuse(self, config: WebConfig, request: Request) -> Response | None:
        if self._limiter is not None and not self._limiter.allow():
            return Response.plain(HTTPStatus.TOO_MANY_REQUESTS)
        if not config.users:
            return None
        if self._auth is None:
            self._auth = BasicAuth()
        match self._auth.check(config.users, request.headers.get("authorization", "")):
            case "allowed":
                return None
            case "busy":
                return Response.plain(HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "1"})
            case "denied":
                return Response.plain(HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": "Basic"})

    def _complain(self, error: ConfigError) -> None:
        self._once.warn("config", "nobody is served: %s", error)

    def _newest(self) -> WebConfig:
        return self._config.get(_stamp(self._path), lambda: load_web_config(self._path))

    def _newest_context(self, settings: TlsSettings) -> ssl.SSLContext:
        pems = (settings.cert, settings.key, settings.client_ca)
        stamps = (_stamp(pem) for pem in pems if isinstance(pem, Path))
        return self._context.get((settings, *stamps), lambda: make_context(settings))


class Fresh(Generic[T]):
    """A value made of files, made again when they change; so is the error where it cannot be."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stamp: Hashable = None
        self._value: T | ConfigError = ConfigError("not read yet")

    def get(self, stamp: Hashable, make: Callable[[], T]) -> T:
        """The value for the files as they are now.

        Args:
            stamp: differs when the files do; taken before they are read.
            make: reads them.

        Raises:
            ConfigError: from `make`, now or when it saw the same files.
        """
        with self._lock:
            if stamp != self._stamp:
                try:
                    self._value = make()
                except ConfigError as error:
                    self._value = error
                self._stamp = stamp
            if isinstance(self._value, ConfigError):
                raise self._value.with_traceback(None)
            return self._value


def _stamp(path: Path) -> Hashable:
    """What changes when a file is written or replaced, also behind a link."""
    try:
        stat = path.stat()
    except OSError:
        return path
    return path, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
