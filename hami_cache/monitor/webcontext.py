"""From TLS settings to OpenSSL, and the checks that OpenSSL does not make."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

from hami_cache.errors import ConfigError
from hami_cache.monitor.webtls import ClientAuth, Pem, TlsSettings

_VERIFY: dict[ClientAuth, ssl.VerifyMode] = {
    "none": ssl.CERT_NONE,
    "if_given": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_NAMES = ("DNS", "IP Address", "email", "URI")


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """A server's context with these settings; reads the files that they name.

    Raises:
        ConfigError: a file cannot be read, or its content cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = settings.minimum
    context.maximum_version = settings.maximum
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    if not settings.server_preference:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if settings.ciphers:
        context.set_ciphers(":".join(settings.ciphers))
    if settings.curve:
        context.set_ecdh_curve(settings.curve)
    with (
        _refusing(settings.cert, "certificate or its key"),
        _as_file(settings.cert) as cert,
        _as_file(settings.key) as key,
    ):
        # The answer to a key's pass phrase: without one, OpenSSL would ask on the terminal.
        context.load_cert_chain(cert, key, password="")
    context.verify_mode = _VERIFY[settings.client_auth]
    if settings.client_ca is not None:
        with _refusing(settings.client_ca, "client CA"), _as_file(settings.client_ca) as file:
            context.load_verify_locations(file)
    elif settings.client_auth != "none":
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return context


def is_allowed(certificate: object, allowed: frozenset[str]) -> bool:
    """Whether a verified client certificate has one of the allowed alternative names.

    Args:
        certificate: as `ssl.SSLSocket.getpeercert` gives it.
        allowed: DNS names, addresses, e-mail addresses and URIs, compared whole.
    """
    entries = certificate.get("subjectAltName", ()) if isinstance(certificate, dict) else ()
    return any(kind in _NAMES and _written(kind, name) in allowed for kind, name in entries)


def _written(kind: str, name: str) -> str:
    """A name as people write it: OpenSSL spells out all of an IPv6 address."""
    if kind == "IP Address":
        with contextlib.suppress(ValueError):
            return str(ipaddress.ip_address(name.strip()))
    return name


@contextlib.contextmanager
def _refusing(pem: Pem, what: str) -> Iterator[None]:
    path = pem if isinstance(pem, Path) else None
    try:
        yield
    except ssl.SSLError as error:
        reason = (error.reason or "no PEM data").lower().replace("_", " ")
        raise ConfigError(f"the {what} cannot be used: {reason}", path=path) from None
    except OSError as error:
        place = error.filename or path
        raise ConfigError(f"the {what} cannot be read: {error.strerror}", path=place) from None


@contextlib.contextmanager
def _as_file(pem: Pem) -> Iterator[str]:
    """A path to the PEM text: OpenSSL reads files. One in memory needs no writable disk."""
    if isinstance(pem, Path):
        # What OpenSSL says of a missing file does not name it.
        pem.open("rb").close()
        yield str(pem)
        return
    fd = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        with open(fd, "w", closefd=False, encoding="utf-8") as file:
            file.write(pem)
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)
