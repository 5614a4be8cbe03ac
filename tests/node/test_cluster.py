"""Pods from the API server: real HTTP against the double in `api_server.py`."""

from __future__ import annotations

import base64
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from hami_cache.errors import ConfigError
from hami_cache.node.cluster import ClusterPods, Pace
from hami_cache.node.cluster_api import PAGE_PODS, Patience
from hami_cache.node.cluster_error import Cause
from hami_cache.node.cluster_state import SETTLE_S, Knowledge
from hami_cache.node.pods import PodSource, PodView
from tests.node.api_server import (
    NODE,
    PATIENCE_S,
    TLS,
    Answer,
    ApiServer,
    cut_off,
    hang_up,
    never_answer,
    pod_json,
    refuse,
    say,
    trickle,
    when,
)

QUICK = Pace(first=0.0, longest=0.0, steady=0.0)


class Follow(Protocol):
    def __call__(self, server: ApiServer, node: str = ..., **options: Any) -> ClusterPods: ...


class Clock:
    """Monotonic seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of these tests are on this machine, whatever its proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Follow]:
    """Start sources that follow a server; they are closed at the end."""
    sources: list[ClusterPods] = []

    def start(server: ApiServer, node: str = NODE, **options: Any) -> ClusterPods:
        options.setdefault("kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"))
        sources.append(ClusterPods(node, **{"pace": QUICK, **options}).start())
        return sources[-1]

    yield start
    for source in sources:
        source.close()


def fresh(view: PodView) -> bool:
    return view.fresh


def known(view: PodView) -> bool:
    return view.known


def has(*uids: str) -> Callable[[PodView], bool]:
    return lambda view: set(view.pods) == set(uids)


def wait(source: ClusterPods, wanted: Callable[[PodView], bool]) -> PodView:
    assert source.wait_for(wanted, PATIENCE_S), source.health()
    return source.view()


def wait_for_errors(source: ClusterPods, cause: Cause, count: int = 1) -> str:
    wait(source, lambda _: source.health().errors[cause] >= count)
    return source.health().last_error


# What is listed and watched


def test_the_list_makes_it_known_and_the_watch_makes_it_fresh(
    server: ApiServer, follow: Follow
) -> None:
    server.add(pod_json("a"))
    source: PodSource = follow(server)
    assert isinstance(source, ClusterPods)
    view = wait(source, fresh)
    assert set(view.pods) == {"a"}
    assert view.known
    assert view.authoritative
    assert view.pods["a"].containers[0].container_id == "a-main"


def test_before_the_first_list_nothing_is_known(server: ApiServer, follow: Follow) -> None:
    server.on_list(never_answer)
    source = follow(server)
    server.wait_for(lambda: bool(server.requests))
    assert not source.view().known
    assert not source.health().up


def test_d1_containers_of_all_three_lists_are_found(server: ApiServer, follow: Follow) -> None:
    server.add(pod_json("a", containers=("main",), init=("setup",), ephemeral=("debug",)))
    pod = wait(follow(server), fresh).pods["a"]
    kinds = {c.name: c.kind for c in pod.containers}
    assert kinds == {"setup": "init", "main": "regular", "debug": "ephemeral"}


def test_d5_neither_label_nor_annotation_is_needed(server: ApiServer, follow: Follow) -> None:
    server.add(pod_json("bare"))
    server.add(pod_json("labelled", labels={"hami.io/vgpu-node": NODE}))
    server.add(pod_json("annotated", annotations={"hami.io/vgpu-node": NODE}))
    view = wait(follow(server), fresh)
    assert set(view.pods) == {"bare", "labelled", "annotated"}
    assert view.pods["annotated"].annotations == {"hami.io/vgpu-node": NODE}


def test_c7_an_ended_pod_stays_until_its_object_goes(server: ApiServer, follow: Follow) -> None:
    server.add(pod_json("a"))
    server.add(pod_json("b"))
    source = follow(server)
    wait(source, fresh)
    server.add(pod_json("a", phase="Succeeded"))
    view = wait(source, lambda view: view.pods["a"].ended)
    assert set(view.pods) == {"a", "b"}
    server.delete("a")
    wait(source, has("b"))


def test_j1_requests_are_scoped_to_the_node_and_views_cost_none(
    server: ApiServer, follow: Follow
) -> None:
    server.add(pod_json("a"))
    source = follow(server)
    wait(source, fresh)
    asked = len(server.requests)
    for _ in range(100):
        assert source.view().fresh
    assert len(server.requests) == asked
    assert len(server.lists) == 1
    assert {r.path for r in server.requests} == {"/api/v1/pods"}
    assert {r.query["fieldSelector"] for r in server.requests} == {f"spec.nodeName={NODE}"}


def test_the_list_is_consistent_and_the_watch_asks_for_bookmarks_and_an_end(
    server: ApiServer, follow: Follow
) -> None:
    server.add(pod_json("a"))
    wait(follow(server, roll=lambda: 0.5), fresh)
    assert "resourceVersion" not in server.lists[0].query
    query = server.watches[0].query
    assert query["allowWatchBookmarks"] == "true"
    assert query["resourceVersion"] == "101"
    assert query["timeoutSeconds"] == str(int(Pace().watch * 1.5))


def test_a_list_comes_in_pages(server: ApiServer, follow: Follow) -> None:
    uids = [f"pod-{i:03}" for i in range(2 * PAGE_PODS + 1)]
    for uid in uids:
        server.add(pod_json(uid))
    source = follow(server)
    assert set(wait(source, fresh).pods) == set(uids)
    assert [r.query["limit"] for r in server.lists] == [str(PAGE_PODS)] * 3
    assert ["continue" in r.query for r in server.lists] == [False, True, True]
    assert source.health().lists == 1


def test_a_list_whose_continuation_has_expired_starts_again(
    server: ApiServer, follow: Follow
) -> None:
    uids = [f"pod-{i:03}" for i in range(PAGE_PODS + 1)]
    for uid in uids:
        server.add(pod_json(uid))
    body = b'{"metadata":{"resourceVersion":"5","continue":"5:25"},"items":null}'
    server.on_list(say(body))
    server.forget_the_past()
    source = follow(server)
    assert set(wait(source, fresh).pods) == set(uids)
    assert source.health().errors["gone"] == 1


def test_pages_of_different_versions_are_watched_from_the_first(
    server: ApiServer, follow: Follow
) -> None:
    page = b'{"metadata":{"resourceVersion":"%s","continue":"%s"},"items":[]}'
    server.on_list(say(page % (b"98", b"more")), say(page % (b"99", b"")))
    source = follow(server)
    wait(source, lambda view: source.health().up)
    assert server.watches[0].query["resourceVersion"] == "98"


def test_a_list_without_an_end_is_given_up(server: ApiServer, follow: Follow) -> None:
    body = b'{"metadata":{"resourceVersion":"5","continue":"5:0"},"items":[]}'
    server.on_list(*[say(body)] * 400)
    server.add(pod_json("a"))
    source = follow(server)
    wait(source, fresh)
    assert source.health().errors["oversized"] == 1


def test_pods_too_large_for_a_page_are_read_one_by_one(server: ApiServer, follow: Follow) -> None:
    for i in range(17):
        server.add(pod_json(str(i), ballast=1 << 20))
    source = follow(server)
    assert len(wait(source, fresh).pods) == 17
    assert [r.query["limit"] for r in server.lists] == [str(PAGE_PODS)] + ["1"] * 17
    assert not any(source.health().errors.values())


def test_events_change_the_view(server: ApiServer, follow: Follow) -> None:
    server.add(pod_json("a"))
    source = follow(server)
    before = wait(source, fresh)
    server.add(pod_json("b"))
    wait(source, has("a", "b"))
    server.add(pod_json("b", labels={"x": "y"}))
    wait(source, lambda view: view.pods["b"].labels == {"x": "y"})
    server.delete("a")
    assert wait(source, has("b")).fresh
    assert set(before.pods) == {"a"}, "a view that was handed out does not change"


def test_pods_of_other_nodes_are_left_out_even_if_the_server_sends_them(
    server: ApiServer, follow: Follow
) -> None:
    server.heed_selector = False
    server.add(pod_json("ours"))
    server.add(pod_json("theirs", node="node-b"))
    source = follow(server)
    assert set(wait(source, fresh).pods) == {"ours"}
    server.add(pod_json("more", node="node-b"))
    server.add(pod_json("last"))
    assert set(wait(source, lambda view: "last" in view.pods).pods) == {"ours", "last"}


# A node name that is a guess, and lists that cannot be true


def test_k2_a_guessed_node_is_scoped_and_never_fresh(server: ApiServer, follow: Follow) -> None:
    server.add(pod_json("ours"))
    server.add(pod_json("theirs", node="node-b"))
    source = follow(server, guessed=True)
    wait(source, lambda view: source.health().up)
    view = source.view()
    assert set(view.pods) == {"ours"}
    assert view.known
    assert not view.fresh
    assert not view.authoritative
    assert {r.query["fieldSelector"] for r in server.requests} == {f"spec.nodeName={NODE}"}


def test_e3_a_node_name_that_selects_nothing_proves_nothing(
    server: ApiServer, follow: Follow
) -> None:
    server.add(pod_json("a"))
    source = follow(server, "no-such-node")
    wait(source, lambda view: source.health().up)
    assert source.view() == PodView(pods={}, known=True, fresh=False, authoritative=False)


def test_without_a_node_name_there_is_no_source() -> None:
    with pytest.raises(ConfigError, match="NODE_NAME"):
        ClusterPods("")


def test_c5_an_error_then_an_empty_list_take_no_pod_away(server: ApiServer, follow: Follow) -> None:
    for uid in "abc":
        server.add(pod_json(uid))
    source = follow(server)
    wait(source, fresh)
    empty = say(b'{"metadata":{"resourceVersion":"105"},"items":[]}')
    server.on_list(refuse(500), cut_off(b'{"metadata":{"resourceVersion":"104"},"it'), empty)
    server.forget_the_past()
    server.pass_time()
    server.drop_watches()
    server.wait_for(lambda: len(server.lists) == 4 and server.open_watches == 1)
    wait(source, lambda _: source.health().lists == 2 and source.health().up)
    assert source.view().pods.keys() == set("abc")
    assert not source.view().fresh
    assert not source.view().authoritative
    assert source.health().errors["server"] == 1
    assert source.health().errors["dropped"] == 2
    # The doubt is looked into when the watch is over, not when the next pod happens to change.
    server.end_watches()
    assert wait(source, fresh).pods.keys() == set("abc")
    assert len(server.lists) == 5


def test_a_list_with_items_that_are_no_pods_is_not_fresh(server: ApiServer, follow: Follow) -> None:
    pod = b'{"metadata":{"uid":"a"},"spec":{"nodeName":"node-a"}}'
    body = b'{"metadata":{"resourceVersion":"100"},"items":[7,{"metadata":{"name":"b"}},%s]}' % pod
    server.on_list(say(body))
    source = follow(server)
    wait(source, lambda view: source.health().up)
    assert set(source.view().pods) == {"a"}
    assert not source.view().fresh


# When the watch breaks off


@pytest.mark.parametrize("inside_line", [False, True])
def test_a_dropped_connection_resumes_where_it_was(
    server: ApiServer, follow: Follow, inside_line: bool
) -> None:
    server.add(pod_json("a"))
    source = follow(server)
    wait(source, fresh)
    server.add(pod_json("b"))
    wait(source, has("a", "b"))
    away = threading.Event()
    server.on_watch(when(away, hang_up))
    server.drop_watches(inside_line=inside_line)
    server.wait_for(lambda: len(server.watches) == 2)
    server.add(pod_json("missed"))
    server.delete("a")
    away.set()
    wait(source, has("b", "missed"))
    assert server.watches[-1].query["resourceVersion"] == "102"
    assert len(server.lists) == 1
    assert source.health().errors["dropped"] == 2
    assert source.health().watches == 2


def test_a_bookmark_moves_the_version_that_a_watch_resumes_from(
    server: ApiServer, follow: Follow
) -> None:
    server.add(pod_json("a"))
    source = follow(server)
    wait(source, fresh)
    server.forget_the_past()
    server.bookmark()
    server.drop_watches()
    server.wait_for(lambda: len(server.watches) == 2)
    assert server.watches[-1].query["resourceVersion"] == "103"
    wait(source, lambda view: source.health().up)
    assert len(server.lists) == 1


@pytest.mark.parametrize("as_event", [False, True])
def test_410_gone_lists_anew(server: ApiServer, follow: Follow, as_event: bool) -> None:
    server.gone_as_event = as_event
    server.add(pod_json("a"))
    server.add(pod_json("b"))
    source = follow(server)
    wait(source, fresh)
    away = threading.Event()
    server.on_watch(when(away, hang_up))
    server.drop_watches()
    server.wait_for(lambda: len(server.watches) == 2 and server.open_watches == 0)
    server.delete("a")
    server.forget_the_past()
    away.set()
    assert wait(source, has("b")).known
    wait(source, fresh)
    assert len(server.lists) == 2
    assert source.health().errors["gone"] == 1


def test_a_version_that_the_server_calls_invalid_lists_anew(
    server: ApiServer, follow: Follow
) -> None:
    server.add(pod_json("a"))
    server.on_watch(refuse(400, "invalid resource version"))
    source = follow(server)
    wait(source, fresh)
    assert len(server.lists) == 2
    assert source.health().errors["refused"] == 1


def test_a_server_that_lost_its_past_is_listed_anew(server: ApiServer, follow: Follow) -> None:
    server.add(pod_json("a"))
    source = follow(server)
    wait(source, fresh)
    server.lose_everything()
    server.drop_watches()
    server.wait_for(lambda: len(server.lists) == 2)
    wait(source, fresh)
    assert source.health().errors["server"] == 6


def test_after_a_gap_it_takes_a_bookmark_to_be_fresh_again(
    server: ApiServer, follow: Follow
) -> None:
    server.add(pod_json("a"))
    source = follow(server)
    wait(source, fresh)
    server.drop_watches()
    wait(source, lambda view: source.health().watches == 2 and source.health().up)
    assert not source.view().fresh, "what was missed may still be on its way"
    server.add(pod_json("b"))
    assert not wait(source, has("a", "b")).fresh
    server.bookmark()
    wait(source, fresh)


def test_after_a_gap_without_bookmarks_time_makes_it_fresh_again(
    server: ApiServer, follow: Follow
) -> None:
    clock = Clock()
    server.add(pod_json("a"))
    source = follow(server, clock=clock)
    wait(source, fresh)
    server.drop_watches()
    wait(source, lambda view: source.health().watches == 2 and source.health().up)
    clock.now += SETTLE_S - 1
    assert not source.view().fresh
    clock.now += 1
    assert source.view().fresh


def test_a_silent_watch_is_no_longer_current(server: ApiServer, follow: Follow) -> None:
    clock = Clock()
    server.add(pod_json("a"))
    source = follow(server, clock=clock)
    wait(source, fresh)
    clock.now += Patience().quiet + 1
    assert not source.view().fresh
    assert not source.health().up
    assert source.view().known


def test_a_watch_that_ends_as_agreed_goes_on_without_pause_or_doubt(
    server: ApiServer, follow: Follow
) -> None:
    rests: list[float] = []
    server.add(pod_json("a"))
    pace = Pace(first=1.0, steady=0.0)
    source = follow(server, pace=pace, rest=rests.append)
    wait(source, fresh)
    server.end_watches()
    wait(source, lambda view: source.health().watches == 2 and view.fresh)
    assert rests == [0.0]
    assert not any(source.health().errors.values())


def test_a_watch_that_ends_at_once_is_not_asked_for_in_a_hot_loop(
    server: ApiServer, follow: Follow
) -> None:
    rests: list[float] = []
    server.add(pod_json("a"))
    server.on_watch(*[say(b"")] * 3)
    pace = Pace(first=1.0, longest=60.0, steady=3600.0)
    source = follow(server, pace=pace, rest=rests.append, roll=lambda: 1.0)
    wait(source, lambda view: source.health().watches == 4)
    assert rests == [1.0, 2.0, 4.0]


def test_a_half_open_connection_is_noticed(server: ApiServer, follow: Follow) -> None:
    server.add(pod_json("a"))
    pace = Pace(first=0.0, steady=0.0, patience=Patience(quiet=0.1))
    source = follow(server, pace=pace)
    wait_for_errors(source, "timeout")
    server.wait_for(lambda: len(server.watches) >= 2)
    assert len(server.lists) == 1


# When the server does not answer, refuses, or talks nonsense


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (refuse(401), "unauthorized"),
        (refuse(403), "forbidden"),
        (refuse(404), "refused"),
        (refuse(302, Location="http://192.0.2.1/"), "refused"),
        (refuse(429), "throttled"),
        (refuse(500), "server"),
        (refuse(503), "server"),
        (say(b"<html>" * 20000, 502), "server"),
        (hang_up, "dropped"),
        (cut_off(b'{"metadata":'), "dropped"),
        (never_answer, "timeout"),
        (trickle, "timeout"),
        (say(b""), "malformed"),
        (say(b"{}"), "malformed"),
        (say(b"[]"), "malformed"),
        (say(b"\xff\xfe"), "malformed"),
        (say(b"[" * 100_000), "malformed"),
        (say(b'{"metadata":{"resourceVersion":7},"items":[]}'), "malformed"),
        (say(b'{"metadata":{"resourceVersion":"7"},"items":{}}'), "malformed"),
    ],
)
def test_a_failed_list_is_counted_and_tried_again(
    server: ApiServer, follow: Follow, answer: Answer, cause: Cause
) -> None:
    server.add(pod_json("a"))
    server.on_list(answer)
    pace = Pace(first=0.0, longest=0.0, patience=Patience(answer=0.2))
    source = follow(server, pace=pace)
    wait(source, fresh)
    errors = source.health().errors
    assert {name for name, count in errors.items() if count} == {cause}
    assert len(server.lists) == 2


@pytest.mark.parametrize(
    "line",
    [
        b"{\n",
        b"7\n",
        b'{"type":"ADDED"}\n',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"7"}}}\n',
        b'{"type":"ADDED","object":{"metadata":{"uid":"b"}}}\n',
        b'{"type":"RENAMED","object":{"metadata":{"resourceVersion":"7"}}}\n',
        b'{"type":[],"object":{"metadata":{"resourceVersion":"7"}}}\n',
    ],
)
def test_an_event_that_cannot_be_read_lists_anew(
    server: ApiServer, follow: Follow, line: bytes
) -> None:
    server.add(pod_json("a"))
    source = follow(server)
    wait(source, fresh)
    server.send_line(line)
    wait_for_errors(source, "malformed")
    server.wait_for(lambda: len(server.lists) == 2)
    assert set(wait(source, fresh).pods) == {"a"}


def test_an_event_without_an_end_is_given_up(server: ApiServer, follow: Follow) -> None:
    server.add(pod_json("a"))
    source = follow(server)
    wait(source, fresh)
    for _ in range(17):
        server.send_line(b"x" * (1 << 20))
    wait_for_errors(source, "oversized")
    wait(source, fresh)


def test_failures_in_a_row_pause_longer_and_longer(server: ApiServer, follow: Follow) -> None:
    rests: list[float] = []
    server.add(pod_json("a"))
    server.on_list(*[refuse(500)] * 4, refuse(429, Retry_After="30"), hang_up)
    pace = Pace(first=1.0, longest=20.0)
    source = follow(server, pace=pace, rest=rests.append, roll=lambda: 0.0)
    wait(source, fresh)
    assert rests == [0.5, 1.0, 2.0, 4.0, 20.0, 10.0]


def test_a_watch_that_was_open_for_long_ends_the_row_of_failures(
    server: ApiServer, follow: Follow
) -> None:
    clock = Clock()
    rests: list[float] = []
    server.add(pod_json("a"))
    server.on_list(refuse(500), refuse(500))
    source = follow(server, pace=Pace(), clock=clock, rest=rests.append, roll=lambda: 1.0)
    wait(source, fresh)
    clock.now += Pace().steady
    server.drop_watches()
    wait(source, lambda view: source.health().watches == 2)
    assert rests == [1.0, 2.0, 1.0]


def test_pauses_are_bounded_and_spread() -> None:
    pace = Pace(first=1.0, longest=60.0)
    assert pace.pause(1, 0.0, 0.0) == 0.5
    assert pace.pause(1, 0.0, 1.0) == 1.0
    assert pace.pause(10**6, 0.0, 1.0) == 60.0
    assert pace.pause(1, 10.0, 0.0) == 10.0
    assert pace.pause(1, 10.0**9, 0.0) == 60.0


def test_what_nobody_has_thought_of_does_not_end_the_thread(
    server: ApiServer, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Knowledge.listed
    broken = iter([True])

    def listed(*args: Any) -> Knowledge:
        if next(broken, False):
            raise ZeroDivisionError("nobody thought of it")
        return original(*args)

    monkeypatch.setattr(Knowledge, "listed", listed)
    server.add(pod_json("a"))
    source = follow(server)
    wait(source, fresh)
    assert source.health().errors["unexpected"] == 1
    assert "ZeroDivisionError" in source.health().last_error


def test_one_warning_a_cause(
    server: ApiServer, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    server.add(pod_json("a"))
    server.on_list(*[refuse(403, "pods is\nforbidden")] * 3, refuse(500))
    with caplog.at_level(logging.WARNING):
        wait(follow(server), fresh)
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("hami")]
    assert len(messages) == 2
    assert "403: pods is\\nforbidden; allow the service account" in messages[0]


def test_health_tells_how_it_goes(server: ApiServer, follow: Follow) -> None:
    server.on_list(refuse(500, "etcd is away"))
    server.add(pod_json("a"))
    source = follow(server, wall=lambda: 1234.5)
    assert source.health().lists == 0
    wait(source, fresh)
    health = source.health()
    assert health.up
    assert (health.pods, health.lists, health.watches) == (1, 1, 1)
    assert health.last_heard == 1234.5
    assert "etcd is away" in health.last_error


# How the server is reached, and as whom


@pytest.fixture
def secure() -> Iterator[ApiServer]:
    with ApiServer(tls=True, tokens={"first"}) as server:
        server.add(pod_json("a"))
        yield server


@pytest.fixture
def account(secure: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A service account's directory as the kubelet projects it: through a symlink that it swaps."""
    folder = tmp_path / "account"
    (folder / "v1").mkdir(parents=True)
    (folder / "v1" / "token").write_text("first")
    (folder / "data").symlink_to("v1")
    (folder / "token").symlink_to("data/token")
    (folder / "namespace").write_text("hami")
    (folder / "ca.crt").write_bytes((TLS / "ca.pem").read_bytes())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", secure.host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(secure.port))
    return folder


def rotate(account: Path, token: str) -> None:
    (account / token).mkdir()
    (account / token / "token").write_text(token)
    (account / "next").symlink_to(token)
    (account / "next").rename(account / "data")


def test_in_cluster(secure: ApiServer, account: Path, follow: Follow) -> None:
    source = follow(secure, kubeconfig=None, service_account=account)
    assert set(wait(source, fresh).pods) == {"a"}
    assert {r.token for r in secure.requests} == {"first"}


def test_a_rotated_token_is_picked_up(secure: ApiServer, account: Path, follow: Follow) -> None:
    source = follow(secure, kubeconfig=None, service_account=account)
    wait(source, fresh)
    rotate(account, "second")
    secure.tokens = {"second"}
    secure.end_watches()
    secure.wait_for(lambda: len(secure.watches) == 3)
    wait(source, lambda view: source.health().watches == 2 and view.fresh)
    assert [r.token for r in secure.watches] == ["first", "first", "second"]
    assert not any(source.health().errors.values())


def test_a_token_that_expires_before_its_successor_comes(
    secure: ApiServer, account: Path, follow: Follow
) -> None:
    source = follow(secure, kubeconfig=None, service_account=account)
    wait(source, fresh)
    secure.tokens = {"second"}
    secure.end_watches()
    assert "401" in wait_for_errors(source, "unauthorized")
    assert not source.view().fresh
    assert set(source.view().pods) == {"a"}
    rotate(account, "second")
    wait(source, lambda view: source.health().up)
    assert len(secure.lists) == 1


def test_a_token_file_that_is_missing_for_a_while(
    secure: ApiServer, account: Path, follow: Follow
) -> None:
    (account / "token").rename(account / "away")
    source = follow(secure, kubeconfig=None, service_account=account)
    assert "token" in wait_for_errors(source, "config")
    (account / "away").rename(account / "token")
    wait(source, fresh)


def test_a_token_that_cannot_be_sent_is_not_logged(
    secure: ApiServer, account: Path, follow: Follow
) -> None:
    (account / "v1" / "token").write_text("sec\nret")
    source = follow(secure, kubeconfig=None, service_account=account)
    error = wait_for_errors(source, "config")
    assert "sec" not in error.replace("secure", "")
    assert "ret" not in error


def test_a_kubeconfig_with_embedded_client_certificate(
    secure: ApiServer, tmp_path: Path, follow: Follow
) -> None:
    secure.tokens = None
    pem = base64.b64encode((TLS / "server.pem").read_bytes()).decode()
    user = {"client-certificate-data": pem, "client-key-data": pem}
    wait(follow(secure, kubeconfig=secure.kubeconfig(tmp_path / "k", **user)), fresh)
    assert all(request.client_cert for request in secure.requests)


def test_a_kubeconfig_without_a_user(server: ApiServer, tmp_path: Path, follow: Follow) -> None:
    kubeconfig = server.kubeconfig(tmp_path / "k")
    config = json.loads(kubeconfig.read_text())
    del config["users"], config["contexts"][0]["context"]["user"]
    kubeconfig.write_text(json.dumps(config))
    server.add(pod_json("a"))
    wait(follow(server, kubeconfig=kubeconfig), fresh)


def test_a_kubeconfig_with_a_login_helper(
    secure: ApiServer, tmp_path: Path, follow: Follow
) -> None:
    helper = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "echo",
        "args": ['{"status":{"token":"first"}}'],
    }
    wait(follow(secure, kubeconfig=secure.kubeconfig(tmp_path / "k", exec=helper)), fresh)


@pytest.mark.parametrize("command", ["/no/such/helper", "false", "echo"])
def test_a_login_helper_that_fails(
    secure: ApiServer, tmp_path: Path, follow: Follow, command: str
) -> None:
    helper = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": command}
    source = follow(secure, kubeconfig=secure.kubeconfig(tmp_path / "k", exec=helper))
    assert "no usable credentials" in wait_for_errors(source, "config")


def test_a_certificate_of_another_authority(
    secure: ApiServer, tmp_path: Path, follow: Follow
) -> None:
    kubeconfig = secure.kubeconfig(tmp_path / "k", token="first")
    other = kubeconfig.read_text().replace("ca.pem", "other_ca.pem")
    kubeconfig.write_text(other)
    source = follow(secure, kubeconfig=kubeconfig)
    assert "certificate" in wait_for_errors(source, "tls").lower()
    assert not secure.requests


def test_a_server_that_is_not_there(tmp_path: Path, follow: Follow) -> None:
    with ApiServer() as server:
        kubeconfig = server.kubeconfig(tmp_path / "k")
    source = follow(server, kubeconfig=kubeconfig, pace=Pace(first=0.01, longest=0.01))
    wait_for_errors(source, "connect", 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "clusters: [",
        "users:\n  - token: s3cret\n   bad: indent",
        '{"current-context":"x","clusters":[],"contexts":[],"users":[]}',
        '{"current-context":"x","clusters":[{"name":"c","cluster":{"server":7}}],"contexts":[]}',
        '{"current-context":"x","clusters":[{"name":"c","cluster":{"server":"nowhere"}}],'
        '"contexts":[{"name":"x","context":{"cluster":"c"}}]}',
    ],
)
def test_a_kubeconfig_that_is_wrong_is_reported_and_read_again(
    server: ApiServer, tmp_path: Path, follow: Follow, text: str
) -> None:
    kubeconfig = tmp_path / "k"
    kubeconfig.write_text(text)
    source = follow(server, kubeconfig=kubeconfig, pace=Pace(first=0.01, longest=0.01))
    error = wait_for_errors(source, "config")
    assert "\n" not in error
    assert "s3cret" not in error
    server.add(pod_json("a"))
    server.kubeconfig(kubeconfig)
    wait(source, fresh)


def test_no_cluster_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="KUBECONFIG"):
        ClusterPods(NODE).start()


def test_no_client_library_is_told_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "lightkube", None)
    with pytest.raises(ConfigError, match=r"hami-cache\[cluster\]"):
        ClusterPods(NODE, kubeconfig=tmp_path / "k").start()


# The end, and the cost


def close_in_time(source: ClusterPods) -> None:
    """The one limit of time that is part of the contract."""
    started = time.monotonic()
    source.close()
    assert time.monotonic() - started < 1.0
    assert not source.view().fresh


def test_close_in_the_middle_of_a_watch(secure: ApiServer, account: Path, follow: Follow) -> None:
    source = follow(secure, kubeconfig=None, service_account=account)
    wait(source, fresh)
    close_in_time(source)
    assert "cluster-pods" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("answer", [never_answer, trickle, refuse(500)])
def test_close_in_the_middle_of_a_list_or_of_a_pause(
    server: ApiServer, follow: Follow, answer: Answer
) -> None:
    server.on_list(answer)
    source = follow(server, pace=Pace(first=3600.0, longest=3600.0))
    server.wait_for(lambda: bool(server.requests))
    close_in_time(source)
    assert "cluster-pods" not in {thread.name for thread in threading.enumerate()}


def test_close_in_the_middle_of_a_handshake(
    secure: ApiServer, tmp_path: Path, follow: Follow
) -> None:
    kubeconfig = secure.kubeconfig(tmp_path / "k")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = str(mute.getsockname()[1])
        kubeconfig.write_text(kubeconfig.read_text().replace(str(secure.port), port))
        source = follow(secure, kubeconfig=kubeconfig)
        with mute.accept()[0] as connection:
            assert connection.recv(1), "the client begins a handshake"
            close_in_time(source)


def test_closing_before_starting_and_twice(tmp_path: Path) -> None:
    source = ClusterPods(NODE, kubeconfig=tmp_path / "k")
    source.close()
    source.close()
    assert not source.view().known


def test_importing_the_source_imports_no_client() -> None:
    code = (
        "import sys, hami_cache.node.cluster;"
        "print([m for m in ('lightkube', 'httpx2', 'msgspec', 'yaml') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


MONITOR_LIKE = """
import sys
from pathlib import Path
import numpy, prometheus_client, click, cffi, pynvml
from hami_cache.node.cluster import ClusterPods
source = ClusterPods("node-a", kubeconfig=Path(sys.argv[1])).start()
assert source.wait_for(lambda view: view.fresh, 20), source.health()
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):
        print(len(source.view().pods), int(line.split()[1]) * 1024)
source.close()
"""


def test_the_peak_of_memory_beside_the_monitors_libraries(
    secure: ApiServer, tmp_path: Path
) -> None:
    for i in range(110):
        server_pod = pod_json(f"pod-{i}", ballast=20_000)
        secure.add(server_pod)
    kubeconfig = secure.kubeconfig(tmp_path / "k", token="first")
    run = subprocess.run(
        [sys.executable, "-c", MONITOR_LIKE, str(kubeconfig)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    pods, peak = map(int, run.stdout.split())
    assert pods == 111
    assert peak < 64 << 20
