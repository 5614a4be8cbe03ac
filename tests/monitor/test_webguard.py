"""A web configuration in force, on real sockets: TLS, passwords, headers and limits."""

from __future__ import annotations

import contextlib
import http.client
import logging
import os
import queue
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import bcrypt
import pytest

from hami_cache.errors import ConfigError
from hami_cache.monitor import web
from hami_cache.monitor.web import Request, Response, WebServer
from hami_cache.monitor.webauth import (
    MAX_KNOWN,
    MAX_WAITING,
    BasicAuth,
    RateLimiter,
    read_credentials,
)
from hami_cache.monitor.webconfig import RateLimit
from hami_cache.monitor.webcontext import is_allowed
from tests.monitor.webclient import (
    PATIENCE,
    ask,
    basic,
    connect,
    exchange,
    get,
    hello,
    make_certificate,
    read_all,
    serving,
    wait_until_closed,
)

PEMS = Path(__file__).parents[1] / "node" / "tls"
PLAIN_TLS = "tls_server_config: {cert_file: server.pem, key_file: server.pem}\n"


def hash_of(password: str) -> str:
    """The cheapest kind there is."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


def trusting(ca: Path = PEMS / "ca.pem", cert: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca))
    if cert is not None:
        context.load_cert_chain(cert)
    return context


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Where a configuration may be written, with the server's certificate beside it."""
    shutil.copy(PEMS / "server.pem", tmp_path)
    shutil.copy(PEMS / "ca.pem", tmp_path)
    return tmp_path / "web.yml"


@contextlib.contextmanager
def guarded(config: Path, text: str, **options: float) -> Iterator[WebServer]:
    config.write_text(text)
    with serving(web_config=config, **options) as server:  # type: ignore[arg-type]
        yield server


def test_an_empty_configuration_protects_nothing(config: Path) -> None:
    with guarded(config, "") as server:
        assert get(server.port).body == b"hello\n"


def test_pages_come_over_tls(config: Path) -> None:
    with (
        guarded(config, PLAIN_TLS) as server,
        contextlib.closing(
            http.client.HTTPSConnection(
                "localhost", server.port, timeout=PATIENCE, context=trusting()
            )
        ) as connection,
    ):
        assert ask(connection).body == b"hello\n"
        first = connection.sock
        assert ask(connection).body == b"hello\n"
        assert connection.sock is first
        assert isinstance(first, ssl.SSLSocket)
        assert first.version() == "TLSv1.3"
        assert first.cipher() is not None


def test_a_plain_request_to_a_tls_server_is_told_so(config: Path) -> None:
    with guarded(config, PLAIN_TLS) as server:
        answer = exchange(server.port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.0 400 ")
        assert b"HTTPS" in answer
        assert get(server.port, tls=trusting()).status == 200


def test_a_client_that_never_shakes_hands_runs_out_of_time(config: Path) -> None:
    with guarded(config, PLAIN_TLS, timeout=0.2) as server, connect(server.port) as sock:
        assert read_all(sock) == b""


def test_silent_clients_of_a_tls_server_cannot_keep_a_scrape_out(config: Path) -> None:
    with guarded(config, PLAIN_TLS, max_connections=2) as server, contextlib.ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(connect(server.port))
        assert get(server.port, tls=trusting()).status == 200


def test_the_end_of_a_server_sends_nothing_in_plain_text(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "GRACE_SECONDS", PATIENCE)
    entered, leave = threading.Event(), threading.Event()

    def long(request: Request) -> Response:
        entered.set()
        assert leave.wait(PATIENCE)
        return hello(request)

    config.write_text(PLAIN_TLS)
    server = WebServer("127.0.0.1:0", {"/": long}, web_config=config)
    server.start()
    with trusting().wrap_socket(connect(server.port), server_hostname="localhost") as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert entered.wait(PATIENCE)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        wait_until_closed(server.port)
        leave.set()
        assert sock.recv(4096).endswith(b"hello\n")
        stopping.join(PATIENCE)


def test_a_client_that_could_speak_http_2_is_told_to_speak_1_1(config: Path) -> None:
    client = trusting()
    client.set_alpn_protocols(["h2", "http/1.1"])
    with (
        guarded(config, PLAIN_TLS) as server,
        client.wrap_socket(connect(server.port), server_hostname="localhost") as sock,
    ):
        assert sock.selected_alpn_protocol() == "http/1.1"


def test_no_client_can_make_the_server_shake_hands_again(config: Path) -> None:
    with guarded(config, PLAIN_TLS) as server:
        client = subprocess.run(
            ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{server.port}"],
            input="R\n",
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert "no renegotiation" in client.stderr


@pytest.mark.parametrize(
    ("setting", "change"),
    [
        ("min_version: TLS13", lambda c: setattr(c, "maximum_version", ssl.TLSVersion.TLSv1_2)),
        ("max_version: TLS12", lambda c: setattr(c, "minimum_version", ssl.TLSVersion.TLSv1_3)),
        ("curve_preferences: [CurveP384]", lambda c: c.set_ecdh_curve("prime256v1")),
        (
            "max_version: TLS12, cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]",
            lambda c: c.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256"),
        ),
    ],
)
def test_a_client_must_speak_as_configured(
    config: Path, setting: str, change: Callable[[ssl.SSLContext], None]
) -> None:
    with guarded(config, PLAIN_TLS.replace("}", f", {setting}}}")) as server:
        assert get(server.port, tls=trusting()).status == 200
        other = trusting()
        change(other)
        with pytest.raises(ssl.SSLError):
            get(server.port, tls=other)


@pytest.mark.parametrize(
    ("preference", "expected"),
    [(True, "ECDHE-ECDSA-AES128-GCM-SHA256"), (False, "ECDHE-ECDSA-AES256-GCM-SHA384")],
)
def test_whose_order_of_suites_counts(config: Path, preference: bool, expected: str) -> None:
    suites = (
        "max_version: TLS12, cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "
        f"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384], prefer_server_cipher_suites: {preference}"
    )
    client = trusting()
    client.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256")
    with (
        guarded(config, PLAIN_TLS.replace("}", f", {suites}}}")) as server,
        client.wrap_socket(connect(server.port), server_hostname="localhost") as sock,
    ):
        cipher = sock.cipher()
        assert cipher is not None
        assert cipher[0] == expected


def with_client_ca(kind: str, more: str = "") -> str:
    return PLAIN_TLS.replace("}", f", client_ca_file: ca.pem, client_auth_type: {kind}{more}}}")


def test_client_certificates_are_required_and_verified(config: Path, tmp_path: Path) -> None:
    strangers = make_certificate(tmp_path, "stranger")
    with guarded(config, with_client_ca("RequireAndVerifyClientCert")) as server:
        assert get(server.port, tls=trusting(cert=PEMS / "server.pem")).status == 200
        for certificate in (None, strangers):
            with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
                get(server.port, tls=trusting(cert=certificate))


def test_client_certificates_are_verified_where_there_are_any(config: Path, tmp_path: Path) -> None:
    strangers = make_certificate(tmp_path, "stranger")
    with guarded(config, with_client_ca("VerifyClientCertIfGiven")) as server:
        assert get(server.port, tls=trusting()).status == 200
        assert get(server.port, tls=trusting(cert=PEMS / "server.pem")).status == 200
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            get(server.port, tls=trusting(cert=strangers))


@pytest.mark.parametrize(
    ("names", "welcome"),
    [
        ("localhost", True),
        ("'::1'", True),
        ("127.0.0.1, elsewhere", True),
        ("elsewhere", False),
        ("LOCALHOST", False),
        ("", False),
    ],
)
def test_client_certificates_must_have_an_allowed_name(
    config: Path, names: str, welcome: bool
) -> None:
    text = with_client_ca("RequireAndVerifyClientCert", f", client_allowed_sans: [{names}]")
    client = trusting(cert=PEMS / "server.pem")
    with guarded(config, text) as server:
        if welcome:
            assert get(server.port, tls=client).status == 200
        else:
            with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
                get(server.port, tls=client)


@pytest.mark.parametrize(
    ("certificate", "expected"),
    [
        ({"subjectAltName": (("URI", "spiffe://a/b"),)}, True),
        ({"subjectAltName": (("email", "a@b"),)}, True),
        ({"subjectAltName": (("IP Address", "FE80:0:0:0:0:0:0:1"),)}, True),
        ({"subjectAltName": (("IP Address", "not an address"),)}, False),
        ({"subjectAltName": (("DirName", "spiffe://a/b"),)}, False),
        ({}, False),
        (None, False),
    ],
)
def test_names_of_every_kind(certificate: object, expected: bool) -> None:
    assert is_allowed(certificate, frozenset({"spiffe://a/b", "a@b", "fe80::1"})) is expected


def test_certificates_in_the_configuration_itself(config: Path) -> None:
    pem = (PEMS / "server.pem").read_text().replace("\n", "\n    ")
    ca = (PEMS / "ca.pem").read_text().replace("\n", "\n    ")
    text = (
        f"tls_server_config:\n  cert: |\n    {pem}\n  key: |\n    {pem}\n  client_ca: |\n    {ca}\n"
        "  client_auth_type: VerifyClientCertIfGiven\n"
    )
    with guarded(config, text) as server:
        assert get(server.port, tls=trusting(cert=PEMS / "server.pem")).status == 200


def test_a_new_certificate_is_used_from_the_next_connection_on(
    config: Path, tmp_path: Path
) -> None:
    old, new = make_certificate(tmp_path, "old"), make_certificate(tmp_path, "new")
    mounted = tmp_path / "server.pem"
    mounted.unlink()
    mounted.symlink_to(old)
    with guarded(config, PLAIN_TLS) as server:
        assert get(server.port, tls=trusting(old)).status == 200
        # As the kubelet renews a mounted Secret: a link is put in the old one's place.
        link = tmp_path / "link"
        link.symlink_to(new)
        link.replace(mounted)
        assert get(server.port, tls=trusting(new)).status == 200
        with pytest.raises(ssl.SSLError):
            get(server.port, tls=trusting(old))


def test_while_a_certificate_cannot_be_used_nobody_is_served(
    config: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with guarded(config, PLAIN_TLS) as server:
        good = (tmp_path / "server.pem").read_bytes()
        (tmp_path / "server.pem").write_text("half a file")
        for _ in range(3):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                get(server.port, tls=trusting())
        (warning,) = (r for r in caplog.records if r.levelno == logging.WARNING)
        assert "server.pem: the certificate or its key cannot be used" in warning.getMessage()
        (tmp_path / "server.pem").write_bytes(good)
        assert get(server.port, tls=trusting()).status == 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tls_server_config: {cert_file: none, key_file: server.pem}", "none: .*No such file"),
        ("tls_server_config: {cert_file: server.pem, key_file: none}", "none: .*No such file"),
        ("tls_server_config: {cert_file: ca.pem, key_file: server.pem}", "key values mismatch"),
        ("tls_server_config: {cert_file: web.yml, key_file: server.pem}", "cannot be used"),
        ("tls_server_config: {cert: CERT, key: KEY}", "cannot be used"),
        (
            PLAIN_TLS.replace(
                "}", ", client_ca_file: web.yml, client_auth_type: RequireAndVerifyClientCert}"
            ),
            "web.yml: the client CA cannot be used",
        ),
        (
            PLAIN_TLS.replace(
                "}", ", client_ca_file: none, client_auth_type: RequireAndVerifyClientCert}"
            ),
            "none: the client CA cannot be read",
        ),
    ],
)
def test_certificates_that_cannot_be_used_end_the_start(
    config: Path, text: str, message: str
) -> None:
    config.write_text(text)
    with pytest.raises(ConfigError, match=message) as error:
        WebServer("127.0.0.1:0", {}, web_config=config)
    assert "\n" not in str(error.value)


def test_a_key_with_a_pass_phrase_is_refused_without_a_question(
    config: Path, tmp_path: Path
) -> None:
    subprocess.run(
        ["openssl", "ec", "-aes128", "-passout", "pass:x", "-in", "server.pem", "-out", "key.pem"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    config.write_text("tls_server_config: {cert_file: server.pem, key_file: key.pem}")
    with pytest.raises(ConfigError, match="cannot be used"):
        WebServer("127.0.0.1:0", {}, web_config=config)


def users(**passwords: str) -> str:
    lines = (f"  {name}: {hash_of(password)}\n" for name, password in passwords.items())
    return "basic_auth_users:\n" + "".join(lines)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (basic("prom", "right"), 200),
        (basic("other", "pass:with:colons"), 200),
        ({"Authorization": basic("prom", "right")["Authorization"].replace("Basic", "bAsIc")}, 200),
        (basic("prom", "wrong"), 401),
        (basic("prom", ""), 401),
        (basic("prom", "right" + "x" * 200), 401),
        (basic("prom", "right\0"), 401),
        (basic("nobody", "right"), 401),
        (basic("", ""), 401),
        ({}, 401),
        ({"Authorization": "Basic"}, 401),
        ({"Authorization": "Basic ???"}, 401),
        ({"Authorization": "Basic cHJvbQ=="}, 401),
        ({"Authorization": "Bearer token"}, 401),
        ({"Authorization": "Basic \xe4"}, 401),
    ],
)
def test_only_users_with_their_password_may_pass(
    config: Path, headers: dict[str, str], status: int
) -> None:
    text = users(prom="right", other="pass:with:colons")
    with guarded(config, text + "http_server_config: {headers: {X-Frame-Options: deny}}") as server:
        for _ in range(2):
            answer = get(server.port, headers=headers)
            assert answer.status == status
            assert answer.headers.get("www-authenticate") == ("Basic" if status == 401 else None)
            assert answer.headers["x-frame-options"] == "deny"


def test_everything_is_protected_as_in_the_toolkit(config: Path) -> None:
    with guarded(config, users(prom="right")) as server:
        for path in ("/", "/healthz", "/readyz", "/metrics", "/nothing"):
            assert get(server.port, path).status == 401


def test_long_passwords_count_as_far_as_bcrypt_reads(config: Path) -> None:
    with guarded(config, users(prom="p" * 72)) as server:
        assert get(server.port, headers=basic("prom", "p" * 100)).status == 200
        assert get(server.port, headers=basic("prom", "p" * 71)).status == 401


def test_configured_headers_come_with_every_answer(config: Path) -> None:
    text = "http_server_config: {headers: {Content-Security-Policy: default-src 'none'}}"
    with guarded(config, text) as server:
        for path in ("/", "/nothing"):
            assert get(server.port, path).headers["content-security-policy"] == "default-src 'none'"


def test_changes_of_the_file_count_from_the_next_request_on(
    config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with guarded(config, users(prom="first")) as server:
        assert get(server.port, headers=basic("prom", "first")).status == 200
        config.write_text(users(prom="second"))
        assert get(server.port, headers=basic("prom", "first")).status == 401
        assert get(server.port, headers=basic("prom", "second")).status == 200
        config.write_text("basic_auth_users: [")
        assert [get(server.port).status for _ in range(3)] == [500] * 3
        config.unlink()
        assert get(server.port).status == 500
        config.write_text("")
        assert get(server.port).status == 200
        config.write_text(users(prom="third"))
        assert get(server.port).status == 401
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 2


def test_users_may_come_into_a_file_that_had_none(config: Path) -> None:
    with guarded(config, "") as server:
        assert get(server.port).status == 200
        config.write_text(users(prom="right"))
        assert get(server.port).status == 401
        assert get(server.port, headers=basic("prom", "right")).status == 200


def test_tls_that_is_taken_out_of_the_file_serves_nobody(config: Path) -> None:
    with guarded(config, PLAIN_TLS) as server:
        config.write_text("")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            get(server.port, tls=trusting())
        assert exchange(server.port, b"GET / HTTP/1.1\r\n\r\n") == b""


def test_too_many_requests_are_refused(config: Path) -> None:
    with guarded(config, "rate_limit: {interval: 1h, burst: 2}") as server:
        assert [get(server.port).status for _ in range(4)] == [200, 200, 429, 429]


def test_tokens_come_back_one_per_interval_up_to_the_burst() -> None:
    now = 100.0
    limiter = RateLimiter(RateLimit(10.0, 2), clock=lambda: now)
    assert [limiter.allow() for _ in range(3)] == [True, True, False]
    now += 9
    assert not limiter.allow()
    now += 1
    assert [limiter.allow() for _ in range(2)] == [True, False]
    now += 1000
    assert [limiter.allow() for _ in range(3)] == [True, True, False]


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The hashes that passwords are checked against from now on."""
    seen: list[bytes] = []
    real = bcrypt.checkpw

    def noting(password: bytes, hashed: bytes) -> bool:
        seen.append(hashed)
        return real(password, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", noting)
    return seen


def test_a_right_password_is_checked_once(checks: list[bytes]) -> None:
    auth = BasicAuth()
    known = {b"prom": hash_of("right").encode()}
    for _ in range(3):
        assert auth.check(known, basic("prom", "right")["Authorization"]) == "allowed"
    assert len(checks) == 1
    changed = {b"prom": hash_of("right").encode()}
    assert auth.check(changed, basic("prom", "right")["Authorization"]) == "allowed"
    assert len(checks) == 2
    assert auth.check({b"else": changed[b"prom"]}, basic("prom", "right")["Authorization"]) == (
        "denied"
    )


def test_an_unknown_user_costs_what_a_wrong_password_costs(checks: list[bytes]) -> None:
    auth = BasicAuth()
    known = {b"a": hash_of("x").encode(), b"b": bcrypt.hashpw(b"y", bcrypt.gensalt(5))}
    assert auth.check(known, basic("b", "wrong")["Authorization"]) == "denied"
    assert auth.check(known, basic("nobody", "wrong")["Authorization"]) == "denied"
    assert [hashed[:7] for hashed in checks] == [b"$2b$05$", b"$2b$05$"]


def test_an_unknown_user_is_denied_whatever_the_decoy_is_worth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bcrypt, "checkpw", lambda password, hashed: True)
    known = {b"a": hash_of("x").encode()}
    assert BasicAuth().check(known, basic("nobody", "x")["Authorization"]) == "denied"


def test_a_flood_of_wrong_passwords_does_not_keep_known_clients_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered, leave = threading.Semaphore(0), threading.Event()

    def slow(password: bytes, hashed: bytes) -> bool:
        entered.release()
        assert leave.wait(PATIENCE)
        return False

    auth = BasicAuth()
    known = {b"prom": hash_of("right").encode()}
    right, wrong = basic("prom", "right")["Authorization"], basic("prom", "wrong")["Authorization"]
    assert auth.check(known, right) == "allowed"
    monkeypatch.setattr(auth, "_matches", slow)
    verdicts: queue.Queue[str] = queue.Queue()
    flood = [
        threading.Thread(target=lambda: verdicts.put(auth.check(known, wrong)))
        for _ in range(MAX_WAITING + 3)
    ]
    for thread in flood:
        thread.start()
    assert entered.acquire(timeout=PATIENCE)
    assert auth.check(known, right) == "allowed"
    assert [verdicts.get(timeout=PATIENCE) for _ in range(3)] == ["busy"] * 3
    leave.set()
    assert [verdicts.get(timeout=PATIENCE) for _ in range(MAX_WAITING)] == ["denied"] * MAX_WAITING
    for thread in flood:
        thread.join(PATIENCE)


def test_the_memory_of_right_passwords_is_bounded() -> None:
    auth = BasicAuth()
    known = {b"prom": hash_of("p" * 72).encode()}
    for number in range(MAX_KNOWN + 5):
        header = basic("prom", "p" * 72 + str(number))["Authorization"]
        assert auth.check(known, header) == "allowed"
    assert len(auth._known) == MAX_KNOWN


def test_a_password_is_not_kept() -> None:
    auth = BasicAuth()
    known = {b"prom": hash_of("secret-word").encode()}
    assert auth.check(known, basic("prom", "secret-word")["Authorization"]) == "allowed"
    assert all(b"secret-word" not in mark for mark in auth._known)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Basic YTpi", (b"a", b"b")),
        ("basic  YTpi ", (b"a", b"b")),
        ("Basic Og==", (b"", b"")),
        ("Basic YQ==", None),
        ("Basic YTpi, Basic YTpi", None),
        ("", None),
    ],
)
def test_credentials(header: str, expected: tuple[bytes, bytes] | None) -> None:
    assert read_credentials(header) == expected


def test_a_server_that_cannot_start_leaves_no_socket_behind(config: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    config.write_text("nonsense: 1")
    with pytest.raises(ConfigError):
        WebServer("127.0.0.1:0", {}, web_config=config)
    assert set(os.listdir("/proc/self/fd")) == before
