"""The service: it answers, its jobs outlive bad passes, and it ends when told to."""

from __future__ import annotations

import contextlib
import gzip
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hami_cache.monitor.service import Job, Service
from hami_cache.monitor.web import Request, Response
from hami_cache.node.pods import PodView
from tests.monitor.service_child import make_service
from tests.monitor.webclient import PATIENCE, connect, get

T = TypeVar("T")
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """A service takes over the signals of its process: give them back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def while_running(service: Service, act: Callable[[], T]) -> T:
    """Run the service in this thread, and `act` beside it until that is done."""

    def act_and_stop() -> T:
        try:
            return act()
        finally:
            service.stop()

    with ThreadPoolExecutor(1) as beside:
        result = beside.submit(act_and_stop)
        service.run()
        return result.result()


class LatePods:
    """A source whose first list takes its time."""

    def __init__(self) -> None:
        self.known = False

    def view(self) -> PodView:
        return PodView(known=self.known)

    def close(self) -> None: ...


def test_metrics_are_an_exposition_that_prometheus_reads(tmp_path: Path) -> None:
    service = make_service(tmp_path)
    accepting = {"Accept-Encoding": "gzip"}
    answer = while_running(service, lambda: get(service.port, "/metrics", headers=accepting))
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = text_string_to_metric_families(gzip.decompress(answer.body).decode())
    assert "hami_build_info" in {family.name for family in families}


def test_it_is_alive_before_it_is_ready(tmp_path: Path) -> None:
    pods = LatePods()
    service = make_service(tmp_path, pods=pods)

    def look() -> list[int]:
        before = [get(service.port, path).status for path in ("/healthz", "/readyz", "/metrics")]
        pods.known = True
        return before + [get(service.port, path).status for path in ("/healthz", "/readyz")]

    assert while_running(service, look) == [200, 503, 200, 200, 200]


def test_further_pages_are_served_beside_the_others(tmp_path: Path) -> None:
    def page(request: Request) -> Response:
        return Response(200, "text/html", b"<p>status</p>")

    service = make_service(tmp_path, pages={"/": page})
    answers = while_running(service, lambda: [get(service.port, p) for p in ("/", "/healthz")])
    assert [answer.body for answer in answers] == [b"<p>status</p>", b"ok\n"]


def test_jobs_outlive_passes_that_raise(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    troubles = ["a", "a", "a", "b", "", "a", "", ""]
    done, other_done = threading.Semaphore(0), threading.Semaphore(0)

    def shaky() -> None:
        trouble = troubles.pop(0) if troubles else ""
        done.release()
        if trouble:
            raise OSError(trouble)

    jobs = (Job("loop", 0.001, shaky), Job("other", 0.001, other_done.release))
    service = make_service(tmp_path, jobs=jobs)

    def wait() -> None:
        for semaphore in (done, other_done):
            for _ in range(10):
                assert semaphore.acquire(timeout=PATIENCE)

    while_running(service, wait)
    failures = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert {r.getMessage() for r in failures} == {"a pass of the loop failed"}
    assert [str(r.exc_info[1]) for r in failures if r.exc_info] == ["a", "b", "a"]


def test_jobs_end_with_the_service(tmp_path: Path) -> None:
    passes = threading.Semaphore(0)
    service = make_service(tmp_path, jobs=(Job("counted job", 3600, passes.release),))
    assert while_running(service, lambda: passes.acquire(timeout=PATIENCE))
    assert "counted job" not in {thread.name for thread in threading.enumerate()}


@contextlib.contextmanager
def child(root: Path, *kind: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.monitor.service_child", str(root), *kind],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def message(process: subprocess.Popen[str]) -> str:
    """The next line of its log."""
    assert process.stderr is not None
    return str(json.loads(process.stderr.readline())["message"])


def port_of(process: subprocess.Popen[str]) -> int:
    text = message(process)
    assert text.startswith("listening on port ")
    return int(text.split()[3])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    with child(tmp_path) as process:
        port = port_of(process)
        assert get(port, "/healthz").body == b"ok\n"
        process.send_signal(number)
        assert message(process) == f"received {number.name}"
        assert process.wait(PATIENCE) == 0
        assert message(process) == "stopped"
        assert process.stderr is not None
        assert process.stderr.read() == ""
        with pytest.raises(ConnectionRefusedError):
            connect(port)


def test_nothing_that_hangs_keeps_it_from_ending(tmp_path: Path) -> None:
    """A job, a page and clients that would all go on for ever; the limit is two seconds."""
    with child(tmp_path, "stuck") as process, contextlib.ExitStack() as stack:
        port = port_of(process)
        assert process.stdout is not None
        for sent in (
            b"",
            b"GET / HT",
            b"GET /healthz HTTP/1.1\r\n\r\n",
            b"GET /hang HTTP/1.1\r\n\r\n",
        ):
            stack.enter_context(connect(port)).sendall(sent)
        assert process.stdout.readline() == "hanging\n"
        process.terminate()
        assert message(process) == "received SIGTERM"
        assert process.wait(2) == 0
        assert message(process) == "stopped"
