"""Listen addresses as Go writes them: ``:9394``, ``127.0.0.1:9394``, ``[::1]:9394``."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket

from hami_cache.errors import ConfigError

BACKLOG = 128
_LONGEST = 300
_FORMS = "write it like :9394, 127.0.0.1:9394 or [::1]:9394"
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""What a kernel without IPv6, and one with IPv6 switched off, say."""


def split_address(text: str) -> tuple[str, int]:
    """Split a Go listen address into its host and its port.

    Ports are numbers here; Go also takes names of ``/etc/services`` and an empty port.

    Args:
        text: ``host:port``; an IPv6 address stands in brackets, an empty host is every address.

    Returns:
        The host without brackets ("" for every address) and the port, 0 for any free one.

    Raises:
        ConfigError: the text is not of this form.

    >>> split_address("[::1]:9394")
    ('::1', 9394)
    """
    match = re.fullmatch(r"(?:\[([^][]*)\]|([^][:]*)):([0-9]{1,5})", text[:_LONGEST])
    if match is None:
        raise ConfigError(f"{text[:60]!r} is not an address to listen on", hint=_FORMS)
    host, port = match[1] or match[2] or "", int(match[3])
    if port > 65535:
        raise ConfigError(f"there is no port {port}", hint="ports end at 65535")
    if match[1] is not None and not _is_ipv6(host):
        raise ConfigError(f"{host[:60]!r} in brackets is not an IPv6 address", hint=_FORMS)
    return host, port


def open_listener(text: str) -> socket.socket:
    """A listening TCP socket on a Go listen address.

    As in Go, an empty host and an unspecified one (``0.0.0.0``, ``::``) mean every address of both
    families, and a name that has both kinds of addresses means its IPv4 one.

    Raises:
        ConfigError: the address makes no sense, is not ours, or is in use.
    """
    host, port = split_address(text)
    try:
        if host in ("", "0.0.0.0", "::"):
            return _listen_everywhere(host, port)
        return _listen(*_resolve(host, port))
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"cannot listen on {text}: {reason}", hint="choose another address or port"
        ) from None


def _listen_everywhere(host: str, port: int) -> socket.socket:
    try:
        return _listen(socket.AF_INET6, ("::", port), both=True)
    except OSError as error:
        if host == "::" or error.errno not in _NO_IPV6:
            raise
    return _listen(socket.AF_INET, ("0.0.0.0", port))


def _resolve(host: str, port: int) -> tuple[int, tuple[object, ...]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, _, _, _, place = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, place


def _listen(family: int, place: tuple[object, ...], both: bool = False) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not both))
        listener.bind(place)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True
