"""The web configuration file: read as the exporter toolkit reads it, or refused in a line."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.errors import ConfigError
from hami_cache.monitor.webconfig import (
    MAX_BYTES,
    RateLimit,
    WebConfig,
    load_web_config,
    parse_web_config,
)
from hami_cache.monitor.webguard import WebGuard
from hami_cache.monitor.webtls import TlsSettings

PEMS = Path(__file__).parents[1] / "node" / "tls"

HASH = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi"
"""The exporter toolkit's own example: the password is fakepassword."""


def parse(text: str) -> WebConfig:
    return parse_web_config(text.encode(), Path("/etc/web/web.yml"))


def tls(text: str) -> TlsSettings:
    settings = parse("tls_server_config:\n  cert_file: a.crt\n  key_file: a.key\n" + text).tls
    assert settings is not None
    return settings


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        parse(text)
    assert str(error.value).startswith("/etc/web/web.yml: ")
    return str(error.value)


@pytest.mark.parametrize("text", ["", "---\n", "# nothing\n", "{}", "tls_server_config:\n", "~"])
def test_a_file_that_wants_nothing_changes_nothing(text: str) -> None:
    assert parse(text) == WebConfig(tls=None, headers={}, users={}, rate_limit=None)


def test_the_toolkits_whole_example() -> None:
    config = parse(f"""
tls_server_config:
  cert_file: server.crt
  key_file: keys/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: /ca/ca.crt
  client_allowed_sans: [prometheus.example, 10.0.0.1]
  min_version: TLS12
  max_version: TLS13
  cipher_suites:
    - TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    - TLS_AES_128_GCM_SHA256
    - TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
  prefer_server_cipher_suites: false
  curve_preferences: [CurveP256]
http_server_config:
  http2: true
  headers:
    Content-Security-Policy: "default-src 'self'"
    X-Frame-Options: deny
    X-Content-Type-Options: nosniff
    X-XSS-Protection:
    Strict-Transport-Security: max-age=31536000
basic_auth_users:
  alice: {HASH}
  1234: {HASH}
rate_limit:
  interval: 1m30s
  burst: 20
""")
    assert config == WebConfig(
        tls=TlsSettings(
            cert=Path("/etc/web/server.crt"),
            key=Path("/etc/web/keys/server.key"),
            client_ca=Path("/ca/ca.crt"),
            client_auth="required",
            allowed_sans=frozenset({"prometheus.example", "10.0.0.1"}),
            minimum=ssl.TLSVersion.TLSv1_2,
            maximum=ssl.TLSVersion.TLSv1_3,
            ciphers=("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
            curve="prime256v1",
            server_preference=False,
        ),
        headers={
            "Content-Security-Policy": "default-src 'self'",
            "X-Frame-Options": "deny",
            "X-Content-Type-Options": "nosniff",
            "Strict-Transport-Security": "max-age=31536000",
        },
        users={b"alice": HASH.encode(), b"1234": HASH.encode()},
        rate_limit=RateLimit(90.0, 20),
    )


def test_what_is_left_out_has_the_toolkits_default() -> None:
    assert tls("") == TlsSettings(
        cert=Path("/etc/web/a.crt"),
        key=Path("/etc/web/a.key"),
        client_ca=None,
        client_auth="none",
        allowed_sans=None,
        minimum=ssl.TLSVersion.TLSv1_2,
        maximum=ssl.TLSVersion.TLSv1_3,
        ciphers=(),
        curve="",
        server_preference=True,
    )


def test_certificates_may_stand_in_the_file_itself() -> None:
    settings = parse("tls_server_config:\n  cert: |\n    CERT\n  key: KEY\n").tls
    assert settings is not None
    assert (settings.cert, settings.key) == ("CERT\n", "KEY")


def test_a_file_comes_before_a_text() -> None:
    assert tls("  cert: CERT\n  key: KEY\n").cert == Path("/etc/web/a.crt")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NoClientCert", "none"),
        ("RequestClientCert", "none"),
        ("VerifyClientCertIfGiven", "if_given"),
        ("RequireAndVerifyClientCert", "required"),
        ("", "none"),
    ],
)
def test_client_authentication(name: str, expected: str) -> None:
    assert tls(f"  client_auth_type: {name}\n").client_auth == expected


def test_old_versions_as_a_lower_bound_mean_the_oldest_that_is_spoken() -> None:
    assert tls("  min_version: TLS10\n").minimum == ssl.TLSVersion.TLSv1_2
    assert tls("  min_version: TLS13\n").minimum == ssl.TLSVersion.TLSv1_3


def test_suites_for_tls_1_3_alone_leave_no_older_version() -> None:
    settings = tls("  cipher_suites: [TLS_AES_128_GCM_SHA256]\n")
    assert settings.minimum == ssl.TLSVersion.TLSv1_3
    assert settings.ciphers == ()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("tls_config: {}", "tls_config: is not a key here (line 1)"),
        ("tls_server_config:\n  cert_fil: x", "config.cert_fil: is not a key here (line 2)"),
        ("http_server_config: {headers: {Server: x}}", "headers.Server: is not a key here"),
        ("http_server_config: {headers: {x-frame-options: deny}}", "is not a key here"),
        ("auth_excluded_paths: [/healthz]", "auth_excluded_paths: is not a key here"),
        ("rate_limit: {rate: 1}", "rate_limit.rate: is not a key here"),
        ("rate_limit: {}\nrate_limit: {}", "rate_limit: stands here twice"),
        (f"basic_auth_users:\n  a: {HASH}\n  a: {HASH}", "basic_auth_users.a: stands here twice"),
        ("just text", "must be a mapping"),
        ("- a list", "must be a mapping"),
        ("tls_server_config: [a]", "tls_server_config: must be a mapping"),
        ("tls_server_config: {cert_file: [a]}", "cert_file: must be a plain value"),
        ("? [a]\n: b", "must be a plain value"),
        ("a: [", "not YAML: expected"),
        ("a: b: c", "not YAML: mapping values are not allowed here (line 1)"),
        ("\x00", "not YAML"),
        ("a: &x 1\n---\nb: 2", "not YAML"),
        ("&a [*a]", "must be a mapping"),
        ("[" * 1500, "not YAML"),
    ],
)  # fmt: skip
def test_a_file_of_the_wrong_shape_says_where(text: str, place: str) -> None:
    assert place in refusal(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{cert_file: a}", "key_file: is missing"),
        ("{key_file: a}", "cert_file: is missing"),
        ("{client_auth_type: NoClientCert}", "cert_file: is missing"),
        ("{cert_file: a, key_file: b, client_ca_file: c}", "client_ca_file: is not used"),
        (
            "{cert_file: a, key_file: b, client_ca: c, client_auth_type: NoClientCert}",
            "client_ca_file: is not used",
        ),
        ("{cert_file: a, key_file: b, client_auth_type: Nobody}", "client_auth_type: is unknown"),
        ("{cert_file: a, key_file: b, client_auth_type: RequireAnyClientCert}", "not done here"),
        ("{cert_file: a, key_file: b, client_auth_type: RequireClientCert}", "not done here"),
        ("{cert_file: a, key_file: b, client_allowed_sans: [x]}", "sans: is not used"),
        (
            "{cert_file: a, key_file: b, client_allowed_sans: x, "
            "client_auth_type: RequireAndVerifyClientCert}",
            "client_allowed_sans: must be a list",
        ),
        ("{cert_file: a, key_file: b, min_version: SSL3}", "min_version: is unknown"),
        ("{cert_file: a, key_file: b, max_version: TLS14}", "max_version: is unknown"),
        ("{cert_file: a, key_file: b, max_version: TLS11}", "TLS11 is not spoken here"),
        (
            "{cert_file: a, key_file: b, min_version: TLS13, max_version: TLS12}",
            "leaves no version to speak",
        ),
        (
            "{cert_file: a, key_file: b, max_version: TLS12, "
            "cipher_suites: [TLS_AES_128_GCM_SHA256]}",
            "leaves no version to speak",
        ),
        ("{cert_file: a, key_file: b, cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]}", "RC4_128_SHA'"),
        ("{cert_file: a, key_file: b, curve_preferences: [CurveP1]}", "'CurveP1' is unknown"),
        (
            "{cert_file: a, key_file: b, curve_preferences: [CurveP256, X25519]}",
            "can hold one curve only",
        ),
        (
            "{cert_file: a, key_file: b, prefer_server_cipher_suites: maybe}",
            "prefer_server_cipher_suites: must be true or false",
        ),
    ],
)
def test_tls_settings_that_cannot_be_kept_are_refused(text: str, what: str) -> None:
    assert what in refusal(f"tls_server_config: {text}")


@pytest.mark.parametrize(
    "text",
    [
        "http_server_config: {http2: 2}",
        "http_server_config: {headers: {X-Frame-Options: allow}}",
        'http_server_config: {headers: {X-Frame-Options: ""}}',
        "http_server_config: {headers: {X-Content-Type-Options: sniff}}",
        'http_server_config: {headers: {Content-Security-Policy: "a\\r\\nSet-Cookie: b"}}',
        'http_server_config: {headers: {X-XSS-Protection: "ä"}}',
        "rate_limit: {interval: soon}",
        "rate_limit: {interval: -1s}",
        "rate_limit: {interval: 1s, burst: many}",
        "rate_limit: {interval: 1s, burst: -1}",
    ],
)
def test_other_settings_that_make_no_sense_are_refused(text: str) -> None:
    refusal(text)


@pytest.mark.parametrize(
    "password",
    [
        "",
        "secret",
        HASH[:-1],
        HASH + "x",
        HASH.replace("$10$", "$03$"),
        HASH.replace("$10$", "$32$"),
        HASH.replace("$2y$", "$5$"),
        "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub",
    ],
)
def test_a_password_that_is_no_bcrypt_hash_is_refused_and_never_shown(password: str) -> None:
    line = refusal(f"basic_auth_users: {{alice: '{password}'}}")
    assert "basic_auth_users.alice: is not a bcrypt hash" in line
    assert password[:20] not in line or not password


@pytest.mark.parametrize("kind", ["2a", "2b", "2x", "2y"])
def test_every_kind_of_bcrypt_hash_is_known(kind: str) -> None:
    assert parse(f"basic_auth_users: {{a: {HASH.replace('2y', kind)}}}").users


def test_a_rate_limit_of_no_interval_is_none() -> None:
    assert parse("rate_limit: {interval: 0, burst: 5}").rate_limit is None
    assert parse("rate_limit: {interval: 1s}").rate_limit == RateLimit(1.0, 0)


def test_scalars_keep_their_text() -> None:
    users = parse(f"basic_auth_users: {{yes: {HASH}, 1_000: {HASH}, ~: {HASH}}}").users
    assert list(users) == [b"yes", b"1_000", b""]


PAIR = "cert_file: server.pem, key_file: server.pem"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Prometheus's promtool")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense: 1",
        "just text",
        f"tls_server_config: {{{PAIR}}}",
        f"tls_server_config: {{{PAIR}, min_version: TLS13}}",
        f"tls_server_config: {{{PAIR}, min_version: TLS10}}",
        f"tls_server_config: {{{PAIR}, min_version: TLS14}}",
        f"tls_server_config: {{{PAIR}, cipher_suites: [TLS_AES_128_GCM_SHA256]}}",
        f"tls_server_config: {{{PAIR}, cipher_suites: [TLS_NULL]}}",
        f"tls_server_config: {{{PAIR}, curve_preferences: [CurveP256]}}",
        f"tls_server_config: {{{PAIR}, curve_preferences: [CurveP1]}}",
        f"tls_server_config: {{{PAIR}, prefer_server_cipher_suites: yes}}",
        f"tls_server_config: {{{PAIR}, prefer_server_cipher_suites: maybe}}",
        f"tls_server_config: {{{PAIR}, client_auth_type: RequestClientCert}}",
        f"tls_server_config: {{{PAIR}, client_auth_type: Nobody}}",
        f"tls_server_config: {{{PAIR}, client_ca_file: ca.pem}}",
        f"tls_server_config: {{{PAIR}, client_ca_file: none.pem, client_auth_type: "
        "RequireAndVerifyClientCert}",
        f"tls_server_config: {{{PAIR}, client_ca_file: ca.pem, client_auth_type: "
        "VerifyClientCertIfGiven}",
        "tls_server_config: {cert_file: server.pem}",
        "tls_server_config: {key_file: server.pem}",
        "tls_server_config: {cert_file: none.pem, key_file: server.pem}",
        "tls_server_config: {cert_file: ca.pem, key_file: server.pem}",
        "tls_server_config: {min_version: TLS13}",
        "tls_server_config: {client_auth_type: NoClientCert}",
        "tls_server_config:",
        "http_server_config: {http2: false}",
        "http_server_config: {http2: 2}",
        "http_server_config: {headers: {X-Frame-Options: deny}}",
        "http_server_config: {headers: {X-Frame-Options: other}}",
        'http_server_config: {headers: {X-Frame-Options: ""}}',
        "http_server_config: {headers: {X-XSS-Protection: }}",
        "http_server_config: {headers: {Server: x}}",
        f"basic_auth_users: {{a: {HASH}, 1: {HASH}, yes: {HASH}}}",
        f"basic_auth_users: {{a: {HASH}, a: {HASH}}}",
        "basic_auth_users: {a: secret}",
        "basic_auth_users: [a]",
    ],
)
def test_prometheus_own_check_says_the_same(tmp_path: Path, text: str) -> None:
    for name in ("server.pem", "ca.pem"):
        shutil.copy(PEMS / name, tmp_path)
    file = tmp_path / "web.yml"
    file.write_text(text)
    check = subprocess.run(["promtool", "check", "web-config", file], capture_output=True)
    try:
        WebGuard(file)
        accepted = True
    except ConfigError:
        accepted = False
    assert accepted == (check.returncode == 0), check.stderr


@given(
    st.text(max_size=200)
    | st.recursive(
        st.sampled_from(["cert_file", "headers", "TLS12", HASH, "", "1s", "~"]),
        lambda inner: (
            st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
            | st.dictionaries(
                st.sampled_from(
                    ["tls_server_config", "basic_auth_users", "rate_limit", "burst", "cert", "key"]
                ),
                inner,
                max_size=3,
            ).map(lambda d: "{" + ", ".join(f"{k}: {v}" for k, v in d.items()) + "}")
        ),
        max_leaves=8,
    )
)
def test_any_text_is_a_configuration_or_one_clear_line(text: str) -> None:
    try:
        parse_web_config(text.encode("utf-8", "surrogatepass"), Path("web.yml"))
    except ConfigError as error:
        assert "\n" not in str(error)


def test_a_file_that_is_not_there_or_far_too_large(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_web_config(tmp_path / "web.yml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_web_config(tmp_path)
    large = tmp_path / "large.yml"
    large.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ConfigError, match="too large"):
        load_web_config(large)


def test_without_pyyaml_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert "pip install 'hami-cache[web]'" in refusal("")


def test_no_monitor_without_a_web_configuration_loads_what_only_one_needs() -> None:
    code = (
        "import sys; from hami_cache.monitor.web import WebServer; WebServer(':0', {}).stop();"
        "print({'yaml', 'bcrypt'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
