"""Listen addresses: read as Go reads them, and really listened on."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.errors import ConfigError
from hami_cache.monitor import address
from hami_cache.monitor.address import open_listener, split_address


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


@contextlib.contextmanager
def listening(text: str) -> Iterator[int]:
    with open_listener(text) as listener:
        yield listener.getsockname()[1]


def reaches(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=20).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":9394", "", 9394),
        (":0", "", 0),
        ("127.0.0.1:9394", "127.0.0.1", 9394),
        ("0.0.0.0:80", "0.0.0.0", 80),
        ("[::1]:9394", "::1", 9394),
        ("[::]:9394", "::", 9394),
        ("[fe80::1%eth0]:9394", "fe80::1%eth0", 9394),
        ("localhost:65535", "localhost", 65535),
        ("node-1.example:09394", "node-1.example", 9394),
    ],
)
def test_addresses_are_split_as_go_splits_them(text: str, host: str, port: int) -> None:
    assert split_address(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "9394",
        "127.0.0.1",
        "127.0.0.1:",
        "::1:9394",
        "[::1]",
        "[::1]9394",
        "[::1:9394",
        "[]:9394",
        "[localhost]:9394",
        "[127.0.0.1]:9394",
        ":65536",
        ":-1",
        ":+1",
        ":http",
        ": 80",
        ":80 ",
        ":80\n",
        ":٣",
        "a" * 300 + ":80",
    ],
)
def test_what_is_no_address_is_one_clear_line(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        split_address(text)
    assert "\n" not in str(error.value)
    assert error.value.hint


@given(st.text() | st.from_regex(r"\[?[0-9a-f:.]*\]?:[0-9]+"))
def test_any_text_is_an_address_or_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        host, port = split_address(text)
        assert 0 <= port <= 65535
        assert split_address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}") == (
            host,
            port,
        )


@needs_ipv6
@pytest.mark.parametrize("text", [":0", "0.0.0.0:0", "[::]:0"])
def test_no_host_means_every_address_of_both_families(text: str) -> None:
    with listening(text) as port:
        assert reaches("127.0.0.1", port)
        assert reaches("::1", port)


def test_an_ipv4_address_is_that_address_alone() -> None:
    with listening("127.0.0.1:0") as port:
        assert reaches("127.0.0.1", port)
        assert not reaches("127.0.0.2", port)
        assert not reaches("::1", port)


@needs_ipv6
def test_an_ipv6_address_is_that_address_alone() -> None:
    with listening("[::1]:0") as port:
        assert reaches("::1", port)
        assert not reaches("127.0.0.1", port)


def test_a_name_means_its_ipv4_address() -> None:
    with listening("localhost:0") as port:
        assert reaches("127.0.0.1", port)


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_without_ipv6_every_address_is_every_ipv4_address(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    real = address._listen

    def no_ipv6(family: int, *rest: object, **options: object) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(number, "no IPv6 on this machine")
        return real(family, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(address, "_listen", no_ipv6)
    with listening(":0") as port:
        assert reaches("127.0.0.1", port)
    with pytest.raises(ConfigError, match="no IPv6"):
        open_listener("[::]:0")


@pytest.mark.parametrize(
    "text",
    ["192.0.2.1:0", "a..b:0", "no-such-host.invalid:0", "x" * 64 + ".example:0", "999.1.1.1:0"],
)
def test_an_address_that_is_not_ours_is_one_clear_line(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot listen on") as error:
        open_listener(text)
    assert "\n" not in str(error.value)


def test_a_port_in_use_is_one_clear_line() -> None:
    with (
        listening("127.0.0.1:0") as port,
        pytest.raises(ConfigError, match="Address already in use"),
    ):
        open_listener(f"127.0.0.1:{port}")
