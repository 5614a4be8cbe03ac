"""The web configuration file of the Prometheus exporter toolkit: TLS, headers, users, a rate limit.

The format is the toolkit's (exporter-toolkit, commit 0089e786, `docs/web-configuration.md`). What
this program cannot do as written is an error, never silently something weaker; docs/web-config.md
has the list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hami_cache.durations import parse_duration
from hami_cache.errors import ConfigError
from hami_cache.monitor.strictyaml import Section, read_yaml
from hami_cache.monitor.webtls import TLS_KEYS, TlsSettings, read_tls

MAX_BYTES = 1 << 20

_KEYS = ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")

_HEADERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""Headers that may be set, and the values they may have where those are few."""

_BCRYPT = re.compile(
    r"\$2[abxy]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}"
)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A token every `seconds`, `burst` of them at most."""

    seconds: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The whole file. Users are by name, their bcrypt hashes as they stand."""

    tls: TlsSettings | None
    headers: Mapping[str, str]
    users: Mapping[bytes, bytes]
    rate_limit: RateLimit | None


def load_web_config(path: Path) -> WebConfig:
    """Read a web configuration file.

    Paths in it are relative to its own directory. The files that it names are not read here.

    Raises:
        ConfigError: the file cannot be read, or says something that cannot be done.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=path) from None
    if len(data) > MAX_BYTES:
        raise ConfigError("is too large for a web configuration", path=path)
    return parse_web_config(data, path)


def parse_web_config(data: bytes, path: Path) -> WebConfig:
    """Read a web configuration from its bytes; `path` is where they come from.

    Raises:
        ConfigError: it says something that cannot be done.
    """
    document = read_yaml(data, path, _KEYS)
    http = document.section("http_server_config", ("http2", "headers"))
    http.flag("http2", True)
    return WebConfig(
        tls=read_tls(document.section("tls_server_config", TLS_KEYS), path.parent),
        headers=_headers(http.section("headers", _HEADERS)),
        users=_users(document.section("basic_auth_users", None)),
        rate_limit=_rate_limit(document.section("rate_limit", ("interval", "burst"))),
    )


def _headers(section: Section) -> dict[str, str]:
    headers = {}
    for name, value in section.items().items():
        allowed = _HEADERS[name]
        if allowed and value not in allowed:
            raise section.error(name, "has another value than these", " or ".join(allowed))
        if not (value.isascii() and value.isprintable()):
            raise section.error(name, "must be printable ASCII on one line")
        if value:
            headers[name] = value
    return headers


def _users(section: Section) -> dict[bytes, bytes]:
    users = {}
    for name, password in section.items().items():
        if not _BCRYPT.fullmatch(password):
            hint = 'make one with: htpasswd -nBC 10 "" | tr -d ":\\n"'
            raise section.error(name, "is not a bcrypt hash", hint)
        users[name.encode()] = password.encode()
    return users


def _rate_limit(section: Section) -> RateLimit | None:
    try:
        seconds = parse_duration(section.text("interval") or "0")
        burst = int(section.text("burst") or "0")
    except (ConfigError, ValueError):
        raise section.error("", "needs a duration and a whole number", "interval: 1s") from None
    if seconds < 0 or burst < 0:
        raise section.error("", "cannot be negative")
    return RateLimit(seconds, burst) if seconds else None
