"""The web server: what it answers, and that nobody on the network can stop it."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import logging
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hami_cache.errors import ConfigError
from hami_cache.monitor import web
from hami_cache.monitor.web import Request, Response, WebServer
from hami_cache.monitor.webmessages import accepts_gzip
from hami_cache.monitor.webstream import BoundedStream
from tests.monitor.webclient import (
    PATIENCE,
    ask,
    connect,
    exchange,
    get,
    hello,
    read_all,
    serving,
    wait_until_closed,
)

METRICS = b"".join(b'metric{number="%d"} 1\n' % n for n in range(500))


def metrics(_request: Request) -> Response:
    return Response(200, "text/plain; version=0.0.4", METRICS)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server for tests that leave it as it was."""
    with serving({"/": hello, "/metrics": metrics}) as server:
        yield server.port


def status_of(answer: bytes) -> int:
    match = re.match(rb"HTTP/1\.1 ([0-9]{3}) [A-Z]", answer)
    assert match, answer
    return int(match[1])


def test_a_page_comes_with_its_type_its_length_and_the_date(port: int) -> None:
    answer = get(port)
    assert (answer.status, answer.body) == (200, b"hello\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-length"] == "6"
    assert parsedate_to_datetime(answer.headers["date"]).tzinfo is not None
    assert "server" not in answer.headers


def test_head_gets_the_headers_of_get_and_no_body(port: int) -> None:
    answer = exchange(port, b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert (status_of(answer), body) == (200, b"")
    assert b"Content-Length: 6" in head.split(b"\r\n")


def test_a_scraper_keeps_its_connection(port: int) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as c:
        assert ask(c, "/").body == b"hello\n"
        first = c.sock
        assert ask(c, "/metrics").body == METRICS
        assert ask(c, "/nothing").status == 404
        assert ask(c, "/").body == b"hello\n"
        assert c.sock is first


def test_requests_sent_together_are_answered_in_order(port: int) -> None:
    one = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = exchange(port, one + one.replace(b"GET / ", b"GET /none ") + one)
    assert re.findall(rb"HTTP/1\.1 (\d+)", answer) == [b"200", b"404", b"200"]


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET / HTTP/1.1\r\nConnection: close",
        b"GET / HTTP/1.0",
        b"GET / HTTP/1.0\r\nConnection: keep-alive",
        b"GET /",
    ],
)
def test_a_client_that_wants_no_more_is_let_go(port: int, request_line: bytes) -> None:
    with connect(port) as sock:
        sock.sendall(request_line + b"\r\n\r\n")
        answer = read_all(sock)
    assert status_of(answer) == 200
    assert b"Connection: close\r\n" in answer


def test_a_request_carries_its_path_headers_and_query() -> None:
    seen: list[Request] = []

    def look(request: Request) -> Response:
        seen.append(request)
        return hello(request)

    with serving({"/slices": look}) as server:
        sent = (
            b"GET http://node:9394/slices?a=1&a=%C3%A4&b=#top HTTP/1.1\r\n"
            b"X-One: a\r\nx-ONE: b\r\nAccept: text/html\r\n\r\n"
        )
        assert status_of(exchange(server.port, sent)) == 200
    (request,) = seen
    assert request.path == "/slices"
    assert request.query == {"a": ["1", "ä"], "b": [""]}
    assert request.headers == {"x-one": "a, b", "accept": "text/html"}


def test_large_bodies_are_compressed_for_those_who_can_read_it(port: int) -> None:
    answer = get(port, "/metrics", headers={"Accept-Encoding": "deflate, gzip;q=1.0, *;q=0.5"})
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) == len(answer.body) < len(METRICS) / 5
    assert gzip.decompress(answer.body) == METRICS
    plain = get(port, "/metrics", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.body == METRICS
    assert plain.headers["vary"] == answer.headers["vary"] == "Accept-Encoding"


def test_small_bodies_travel_as_they_are(port: int) -> None:
    answer = get(port, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in answer.headers
    assert answer.body == b"hello\n"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("deflate,gzip", True),
        ("*", True),
        ("gzip;q=0.1", True),
        ("gzip; q=1", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("gzip;q=0, *", False),
        ("*;q=0, gzip", True),
        ("notgzip", False),
    ],
)
def test_accept_encoding(header: str, expected: bool) -> None:
    assert accepts_gzip(header) is expected


@given(st.text())
def test_any_accept_encoding_is_understood_somehow(header: str) -> None:
    assert accepts_gzip(header) in (True, False)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_nothing_but_get_and_head(port: int, method: str) -> None:
    answer = get(port, method=method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/x.y\r\n\r\n", 400),
        (b"GET / FTP/1.1\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET //[ HTTP/1.1\r\n\r\n", 404),
        (b"GET http://[ HTTP/1.1\r\n\r\n", 400),
        (b"GET /?" + b"a&" * 200 + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno header at all\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length : 5\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /" + b"a" * 30_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 200 + b"\r\n", 431),
    ],
)
def test_a_bad_request_is_told_so_and_ends_the_connection(
    port: int, sent: bytes, status: int
) -> None:
    answer = exchange(port, sent)
    assert status_of(answer) == status
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close\r\n" in answer or status == 404


def test_what_a_bad_request_said_is_not_repeated(port: int) -> None:
    assert b"script" not in exchange(port, b"<script>alert(1)</script>\r\n\r\n")
    assert b"script" not in exchange(port, b"GET /<script> HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize(
    ("start", "more", "status"),
    [
        (b"GET / HTTP/1.1\r\n", b"X-Endless: aaaaaaaaaaaaaaaaaaaaaaaaa\r\n", 431),
        (b"GET /", b"a" * 64, 414),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"4\r\nbody\r\n", 405),
        (b"POST / HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n", b"body", 405),
    ],
    ids=["headers", "target", "chunks", "body"],
)
def test_a_request_without_end_is_cut_off(
    port: int, start: bytes, more: bytes, status: int
) -> None:
    with connect(port) as sock:
        sock.sendall(start)
        sock.settimeout(0.01)
        answer = b""
        # Some twenty thousand of these fit into a request's head; no server of ours reads more.
        for _ in range(20_000):
            with contextlib.suppress(ConnectionError, TimeoutError):
                sock.send(more * 8)
            with contextlib.suppress(TimeoutError, ConnectionError):
                answer = sock.recv(4096)
                break
    assert status_of(answer) == status


def test_a_get_with_a_body_is_answered_and_its_body_is_no_request(port: int) -> None:
    inner = b"GET /metrics HTTP/1.1\r\n\r\n"
    sent = b"GET / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(inner), inner)
    answer = exchange(port, sent)
    assert answer.count(b"HTTP/1.1 200") == 1
    assert answer.endswith(b"hello\n")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=300)
    | st.builds(
        lambda method, target, version, rest: b" ".join((method, target, version)) + rest,
        st.sampled_from([b"GET", b"HEAD", b"POST", b""]),
        st.binary(max_size=40),
        st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/9.9", b""]),
        st.sampled_from([b"\r\n", b"\r\n\r\n", b"\n\n", b"\r\nA: b\r\n c\r\n\r\n", b""]),
    )
)
@example(b"\r\n\r\nGET / HTTP/1.1\r\n\r\n")
def test_any_bytes_are_survived(port: int, sent: bytes) -> None:
    answer = exchange(port, sent)
    assert answer == b"" or status_of(answer)
    assert get(port).body == b"hello\n"


def test_a_handler_that_raises_costs_one_answer_and_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = True

    def shaky(request: Request) -> Response:
        if broken:
            raise RuntimeError("a bug")
        return hello(request)

    with serving({"/": hello, "/shaky": shaky}) as server:
        assert [get(server.port, "/shaky").status for _ in range(3)] == [500, 500, 500]
        assert get(server.port).status == 200
        assert [r.levelname for r in caplog.records].count("ERROR") == 1
        broken = False
        assert get(server.port, "/shaky").status == 200
        broken = True
        assert get(server.port, "/shaky").status == 500
    assert [r.levelname for r in caplog.records].count("ERROR") == 2


def test_a_connection_survives_the_500(port: int) -> None:
    def bad(_request: Request) -> Response:
        raise ZeroDivisionError

    with (
        serving({"/": hello, "/bad": bad}) as server,
        contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        ) as connection,
    ):
        assert ask(connection, "/bad").status == 500
        assert ask(connection, "/").status == 200


def test_slow_clients_cannot_keep_a_scrape_out() -> None:
    with serving(max_connections=4) as server, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(server.port)) for _ in range(12)]
        for sock in slow:
            with contextlib.suppress(ConnectionError):
                sock.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        for _ in range(5):
            assert get(server.port).body == b"hello\n"


def test_who_waited_longest_gives_way_first() -> None:
    with serving(max_connections=2) as server, connect(server.port) as idle:
        idle.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert status_of(idle.recv(4096)) == 200
        with connect(server.port) as newer:
            newer.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert status_of(newer.recv(4096)) == 200
            assert get(server.port).status == 200
            assert idle.recv(1) == b""
            newer.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert status_of(newer.recv(4096)) == 200


def test_a_client_that_sends_a_byte_now_and_then_runs_out_of_time() -> None:
    with serving(timeout=0.2) as server, connect(server.port) as sock:
        sock.settimeout(0.02)
        for _ in range(1000):
            try:
                sock.send(b"G")
                if sock.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    pytest.fail("the server still waits for the head of the request")


def test_a_client_that_never_reads_runs_out_of_time() -> None:
    huge = Response(200, "text/plain", bytes(32 << 20))
    with (
        serving({"/": lambda _: huge}, timeout=0.2) as server,
        contextlib.closing(socket.socket()) as sock,
    ):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(PATIENCE)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert sock.recv(1) == b"H"
        for thread in threading.enumerate():
            if thread.name == "web-connection":
                thread.join(PATIENCE)
                assert not thread.is_alive()
        assert len(read_all(sock)) < len(huge.body)


def test_a_client_that_leaves_in_the_middle_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    with serving({"/": metrics}, max_connections=1) as server:
        for sent in (b"", b"GET /", b"GET / HTTP/1.1\r\n\r\n"):
            with connect(server.port) as sock:
                # Closing with this leaves a reset instead of an orderly end.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                sock.sendall(sent)
        assert get(server.port).body == METRICS
    assert not [r for r in caplog.records if r.levelno > logging.INFO]


class Long:
    """A page that takes until it may leave; `entered` counts who came in."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.leave = threading.Event()

    def __call__(self, request: Request) -> Response:
        self.entered.release()
        assert self.leave.wait(PATIENCE)
        return hello(request)

    @contextlib.contextmanager
    def occupied(self, port: int, *paths: str) -> Iterator[None]:
        """While a client waits for each of these pages; all must get them in the end."""
        with ThreadPoolExecutor(len(paths)) as clients:
            answers = [clients.submit(get, port, path) for path in paths]
            for _ in answers:
                assert self.entered.acquire(timeout=PATIENCE)
            yield
            self.leave.set()
            assert [answer.result().status for answer in answers] == [200] * len(paths)


def test_where_all_are_busy_a_new_client_is_refused_at_once() -> None:
    long = Long()
    with serving({"/": hello, "/a": long, "/b": long}, max_connections=2) as server:
        with long.occupied(server.port, "/a", "/b"), connect(server.port) as sock:
            assert status_of(read_all(sock)) == 503
        assert get(server.port).status == 200


def test_one_page_cannot_take_all_places() -> None:
    long = Long()
    with serving({"/healthz": hello, "/metrics": long}, max_connections=4) as server:
        with long.occupied(server.port, "/metrics", "/metrics"):
            refused = get(server.port, "/metrics")
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert get(server.port, "/healthz").status == 200
        assert get(server.port, "/metrics").status == 200


def test_what_a_page_takes_to_make_is_not_the_clients_time() -> None:
    def slow(_request: Request) -> Response:
        time.sleep(0.4)
        return Response(200, "text/plain", METRICS)

    with serving({"/": slow}, timeout=0.2) as server:
        assert get(server.port).body == METRICS


def test_an_operation_may_wait_until_the_deadline_and_no_longer() -> None:
    here, there = socket.socketpair()
    with here, there:
        stream = BoundedStream(here)
        stream.allow(1000.0, 10)
        there.sendall(b"abc")
        assert stream.read(3) == b"abc"
        assert 900 < (here.gettimeout() or 0) <= 1000
        stream.allow(0.0, 10)
        with pytest.raises(TimeoutError):
            stream.read(1)
        with pytest.raises(TimeoutError):
            stream.write(b"x")


def test_a_thread_that_cannot_start_costs_one_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "web-connection":
            raise RuntimeError("can't start new thread")
        start(thread)

    with serving(max_connections=1) as server:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        for _ in range(3):
            with connect(server.port) as sock:
                assert read_all(sock) == b""
        monkeypatch.undo()
        assert get(server.port).status == 200
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warnings == ["cannot serve a connection: can't start new thread"]


def test_the_end_does_not_wait_for_slow_clients() -> None:
    entered, leave = threading.Event(), threading.Event()

    def stuck(request: Request) -> Response:
        entered.set()
        leave.wait(PATIENCE)
        return hello(request)

    server = WebServer("127.0.0.1:0", {"/": hello, "/stuck": stuck})
    server.start()
    with contextlib.ExitStack() as stack:
        silent, slow, idle, waiting = (stack.enter_context(connect(server.port)) for _ in range(4))
        slow.sendall(b"GET / HT")
        idle.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert status_of(idle.recv(4096)) == 200
        waiting.sendall(b"GET /stuck HTTP/1.1\r\n\r\n")
        assert entered.wait(PATIENCE)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        stopping.join(PATIENCE / 2)
        assert not stopping.is_alive()
        for sock in (silent, slow, idle, waiting):
            assert read_all(sock) == b""
        leave.set()
    WebServer(f"127.0.0.1:{server.port}", {}).stop()


def test_an_answer_under_way_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "GRACE_SECONDS", PATIENCE)
    entered, leave = threading.Event(), threading.Event()

    def long(request: Request) -> Response:
        entered.set()
        assert leave.wait(PATIENCE)
        return metrics(request)

    server = WebServer("127.0.0.1:0", {"/": long})
    server.start()
    with connect(server.port) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert entered.wait(PATIENCE)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        wait_until_closed(server.port)
        leave.set()
        assert read_all(sock).endswith(METRICS)
        stopping.join(PATIENCE)


def test_a_server_that_never_started_can_be_stopped() -> None:
    server = WebServer("127.0.0.1:0", {})
    port = server.port
    server.stop()
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        connect(port)


def test_clients_may_come_before_the_first_answer() -> None:
    server = WebServer("127.0.0.1:0", {"/": hello})
    with connect(server.port) as early:
        early.sendall(b"GET / HTTP/1.1\r\n\r\n")
        server.start()
        assert status_of(early.recv(4096)) == 200
    server.stop()


def test_an_address_in_use_is_one_clear_line(port: int) -> None:
    with pytest.raises(ConfigError, match=rf"cannot listen on 127.0.0.1:{port}: Address already"):
        WebServer(f"127.0.0.1:{port}", {})


POOR_SERVER = """
import resource, sys, logging
logging.basicConfig(format="%(message)s")
from hami_cache.monitor.web import Response, WebServer
page = Response(200, "text/plain", b"hello")
server = WebServer("127.0.0.1:0", {"/": lambda _: page}, timeout=60)
server.start()
resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
print(server.port, flush=True)
sys.stdin.read()
"""


def test_a_server_out_of_file_descriptors_recovers() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", POOR_SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin and child.stdout and child.stderr
        port = int(child.stdout.readline())
        with contextlib.ExitStack() as stack:
            for _ in range(40):
                stack.enter_context(connect(port))
            assert "Too many open files" in child.stderr.readline()
        assert get(port).status == 200
        child.stdin.close()
        assert child.wait(PATIENCE) == 0
        assert child.stderr.read() == ""
