"""``tls_server_config``: what a web configuration file says about TLS, checked."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from hami_cache.monitor.strictyaml import Section

ClientAuth = Literal["none", "if_given", "required"]

Pem = Path | str
"""A file, or the PEM text itself."""

_ENABLING = (
    "cert",
    "cert_file",
    "key",
    "key_file",
    "client_ca",
    "client_ca_file",
    "client_auth_type",
)
"""Any of these, filled in, means that TLS is wanted."""
TLS_KEYS = (
    *_ENABLING,
    "client_allowed_sans",
    "min_version",
    "max_version",
    "cipher_suites",
    "prefer_server_cipher_suites",
    "curve_preferences",
)

_CLIENT_AUTH: Final[Mapping[str, ClientAuth]] = {
    "": "none",
    "NoClientCert": "none",
    # It asks for a certificate and then accepts any, and none.
    "RequestClientCert": "none",
    "VerifyClientCertIfGiven": "if_given",
    "RequireAndVerifyClientCert": "required",
}
_STRICT: Final = "RequireAndVerifyClientCert"
_UNVERIFIED: Final = ("RequireAnyClientCert", "RequireClientCert")

_VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = {
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
_OLD_VERSIONS: Final = ("TLS10", "TLS11")
"""OpenSSL as it is built today speaks neither; as a lower bound they mean TLS 1.2."""

_CURVES: Final[Mapping[str, str]] = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}

_TLS13_CIPHERS: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
"""Nobody can choose among these, with Go or with OpenSSL: they are always on."""

_CIPHERS: Final[Mapping[str, str]] = {
    f"TLS_ECDHE_{kind}_WITH_{name}": f"ECDHE-{kind}-{openssl}"
    for kind in ("ECDSA", "RSA")
    for name, openssl in (
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
"""Go's names of the suites for TLS 1.2 (`tls.CipherSuites`), and OpenSSL's."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """``tls_server_config``.

    Attributes:
        ciphers: OpenSSL's names for TLS 1.2; empty where its default is wanted.
        curve: OpenSSL's name of the only curve; "" where its default is wanted.
        allowed_sans: a client's certificate must have one of these names; None asks for none.
    """

    cert: Pem
    key: Pem
    client_ca: Pem | None
    client_auth: ClientAuth
    allowed_sans: frozenset[str] | None
    minimum: ssl.TLSVersion
    maximum: ssl.TLSVersion
    ciphers: tuple[str, ...]
    curve: str
    server_preference: bool


def read_tls(section: Section, directory: Path) -> TlsSettings | None:
    """Read the section; None where it does not ask for TLS.

    Args:
        section: with `TLS_KEYS`.
        directory: relative paths start there.

    Raises:
        ConfigError: it is incomplete, contradicts itself, or asks for what cannot be done.
    """
    if not any(section.text(key) for key in _ENABLING):
        return None
    cert, key = (_pem(section, name, directory) for name in ("cert", "key"))
    if cert is None or key is None:
        raise section.error("cert_file" if cert is None else "key_file", "is missing")
    client_ca = _pem(section, "client_ca", directory)
    client_auth = _client_auth(section)
    if client_ca is not None and section.text("client_auth_type") in ("", "NoClientCert"):
        raise section.error("client_ca_file", "is not used", f"client_auth_type: {_STRICT}")
    sans = section.texts("client_allowed_sans")
    if sans is not None and client_auth != "required":
        raise section.error("client_allowed_sans", "is not used", f"client_auth_type: {_STRICT}")
    minimum = _version(section, "min_version", ssl.TLSVersion.TLSv1_2)
    maximum = _version(section, "max_version", ssl.TLSVersion.TLSv1_3)
    ciphers = _ciphers(section)
    if ciphers == ():
        # Suites were chosen, and none of them is for TLS 1.2.
        minimum = ssl.TLSVersion.TLSv1_3
    if minimum > maximum:
        raise section.error("max_version", "leaves no version to speak")
    return TlsSettings(
        cert=cert,
        key=key,
        client_ca=client_ca,
        client_auth=client_auth,
        allowed_sans=None if sans is None else frozenset(sans),
        minimum=minimum,
        maximum=maximum,
        ciphers=ciphers or (),
        curve=_curve(section),
        server_preference=section.flag("prefer_server_cipher_suites", True),
    )


def _pem(section: Section, name: str, directory: Path) -> Pem | None:
    """A file comes before a text, as in the toolkit."""
    file = section.text(f"{name}_file")
    return directory / file if file else section.text(name) or None


def _client_auth(section: Section) -> ClientAuth:
    name = section.text("client_auth_type")
    if name in _UNVERIFIED:
        raise section.error(
            "client_auth_type", f"{name} trusts any certificate: not done here", f"use {_STRICT}"
        )
    if name not in _CLIENT_AUTH:
        raise section.error("client_auth_type", "is unknown", ", ".join(filter(None, _CLIENT_AUTH)))
    return _CLIENT_AUTH[name]


def _version(section: Section, key: str, default: ssl.TLSVersion) -> ssl.TLSVersion:
    name = section.text(key)
    if not name or (key == "min_version" and name in _OLD_VERSIONS):
        return default
    if name in _OLD_VERSIONS:
        raise section.error(key, f"{name} is not spoken here", ", ".join(_VERSIONS))
    if name not in _VERSIONS:
        raise section.error(key, "is unknown", ", ".join(_VERSIONS))
    return _VERSIONS[name]


def _ciphers(section: Section) -> tuple[str, ...] | None:
    """OpenSSL's names of the suites for TLS 1.2; None where nothing was chosen."""
    names = section.texts("cipher_suites")
    if not names:
        return None
    for name in names:
        if name not in _CIPHERS and name not in _TLS13_CIPHERS:
            raise section.error("cipher_suites", f"{name[:60]!r} is not a suite of Go's")
    return tuple(_CIPHERS[name] for name in names if name in _CIPHERS)


def _curve(section: Section) -> str:
    names = section.texts("curve_preferences") or []
    for name in names:
        if name not in _CURVES:
            raise section.error(
                "curve_preferences", f"{name[:60]!r} is unknown", ", ".join(_CURVES)
            )
    if len(set(names)) > 1:
        # Python's ssl module can pin one group or leave OpenSSL's list as it is.
        raise section.error("curve_preferences", "can hold one curve only", "keep one, or none")
    return _CURVES[names[0]] if names else ""
