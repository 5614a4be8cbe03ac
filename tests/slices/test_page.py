"""The monitor's ``/slices`` and the metrics beside it, over a real web server."""

from __future__ import annotations

import http.client
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hami_cache.errors import HamiCacheError
from hami_cache.monitor.exposition import expose
from hami_cache.monitor.slices_metrics import SlicesMetrics
from hami_cache.monitor.slices_page import SlicesPage
from hami_cache.monitor.web import WebServer
from hami_cache.node.containers import ContainerTree
from hami_cache.node.pods import NoPods, Pod, PodView
from hami_cache.node.usage import UsageReader
from hami_cache.slices.collect import Collected
from hami_cache.slices.findings import Finding
from hami_cache.slices.live import LiveSlices
from hami_cache.slices.section import Device, Section, Usage
from hami_cache.slices.sectionjson import from_json, to_json
from tests.slices.simulated import GIB, SimulatedNode, cache

PERIOD = 5.0
SECTION = Section(truncated=True)


@dataclass
class Passes:
    """Passes that bring what they are told to, at a time that they are told."""

    answers: list[Collected | Exception] = field(default_factory=list)
    now: float = 1000.0

    def collect(self) -> Collected:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def passes() -> Passes:
    return Passes()


@pytest.fixture
def page(passes: Passes) -> SlicesPage:
    return SlicesPage(passes.collect, PERIOD, clock=lambda: passes.now)


@pytest.fixture
def port(page: SlicesPage) -> Iterator[int]:
    server = WebServer("127.0.0.1:0", {"/slices": page.respond})
    server.start()
    yield server.port
    server.stop()


def get(port: int) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/slices")
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, body, response.headers


def test_the_newest_section_is_served_with_its_age(
    passes: Passes, page: SlicesPage, port: int
) -> None:
    passes.answers = [Collected(Section()), Collected(SECTION)]
    page.run()
    page.run()
    passes.now += 7.9
    status, body, headers = get(port)
    assert (status, body) == (200, to_json(SECTION) + b"\n")
    assert (headers["Content-Type"], headers["Age"]) == ("application/json", "7")
    assert headers["Cache-Control"] == "no-store"


def test_a_pass_that_could_not_measure_is_null_and_no_empty_section(
    passes: Passes, page: SlicesPage, port: int
) -> None:
    passes.answers = [Collected(None)]
    page.run()
    assert get(port)[:2] == (200, b"null\n")


def test_before_the_first_pass_there_is_no_answer(port: int) -> None:
    status, body, headers = get(port)
    assert (status, body) == (503, b"no pass has been taken yet\n")
    assert headers["Age"] is None


def test_an_old_section_is_not_presented_as_fresh(
    passes: Passes, page: SlicesPage, port: int
) -> None:
    passes.answers = [Collected(SECTION), HamiCacheError("the driver is gone"), Collected(SECTION)]
    page.run()
    passes.now += 3 * PERIOD
    assert get(port)[0] == 200
    passes.now += 0.5
    with pytest.raises(HamiCacheError):
        page.run()
    assert get(port)[:2] == (503, b"the last pass is 15 s old, and one is due every 5 s\n")
    page.run()
    assert get(port)[0] == 200


def test_the_age_counts_from_the_beginning_of_the_pass(passes: Passes) -> None:
    def slowly() -> Collected:
        passes.now += 3 * PERIOD + 1
        return Collected(SECTION)

    slow = SlicesPage(slowly, PERIOD, clock=lambda: passes.now)
    slow.run()
    assert slow.newest is not None
    assert slow.current() is None


def test_a_problem_is_logged_while_it_is_news(
    passes: Passes, page: SlicesPage, caplog: pytest.LogCaptureFixture
) -> None:
    bad = Collected(SECTION, problems=(HamiCacheError("no driver"),))
    passes.answers = [bad, bad, Collected(SECTION), bad]
    logged = []
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            page.run()
            logged.append(len(caplog.records))
    assert logged == [1, 1, 1, 2]
    assert caplog.messages[0] == "slices: no driver"


class Pods(NoPods):
    def view(self) -> PodView:
        return PodView(pods={"uid-a": Pod("uid-a", "train", "work")}, known=True)


def lines(page: SlicesPage) -> list[str]:
    text = expose(SlicesMetrics(page, Pods()).collect()).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_findings_are_metrics_while_they_are_of_now(passes: Passes, page: SlicesPage) -> None:
    assert lines(page) == ["hami_cache_slices_measured 0"]
    findings = (
        Finding("source_disagreement", "uid-a", "main", "GPU-0", "memory", 1024, 2048),
        Finding("over_limit", "uid-b", "main", "GPU-0", "memory", 1024, 2048),
    )
    passes.answers = [Collected(SECTION, findings)]
    page.run()
    *found, measured, last = lines(page)
    assert found == [
        'hami_cache_slice_disagreement{namespace="work",pod="train",container="main",'
        'device_uuid="GPU-0",figure="memory"} 1',
        'hami_cache_slice_over_limit{namespace="",pod="uid-b",container="main",'
        'device_uuid="GPU-0",figure="memory"} 1',
    ]
    assert measured == "hami_cache_slices_measured 1"
    assert page.newest is not None
    assert last == f"hami_cache_slices_last_pass_timestamp_seconds {page.newest.time}"
    passes.now += 3 * PERIOD + 1
    assert lines(page) == ["hami_cache_slices_measured 0", last]


def test_a_pass_that_could_not_measure_is_not_measured(passes: Passes, page: SlicesPage) -> None:
    passes.answers = [Collected(None)]
    page.run()
    assert lines(page)[0] == "hami_cache_slices_measured 0"


def test_a_real_node_behind_a_real_server(tmp_path: Path) -> None:
    node = SimulatedNode(tmp_path)
    uid = node.pod("trainer", "GPU-0", cache=cache("GPU-0").process(5, memory=[GIB], sm_util=[7]))
    tree = ContainerTree(node.hook_path)
    page = SlicesPage(LiveSlices(node.pods, reader=UsageReader(tree)).collect, PERIOD)
    page.run()
    server = WebServer("127.0.0.1:0", {"/slices": page.respond})
    server.start()
    status, body, headers = get(server.port)
    server.stop()
    tree.close()
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert from_json(body.decode()) == Section(
        (Usage("nvidia", uid, "main", "GPU-0", 1024, 7),),
        (Device("nvidia", "GPU-0", "not_measured", "not_measured"),),
    )
