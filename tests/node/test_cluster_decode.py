"""The bytes of the API server's answers, hostile ones above all."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.node.cluster_decode import (
    decode_event,
    decode_item,
    decode_page,
    decode_status,
    lines,
    whole,
)
from hami_cache.node.cluster_error import CAUSES, ClusterError, error_event, refusal
from tests.node.test_pods import ANY_JSON, PODLIKE

ANY_BYTES = st.binary() | ANY_JSON.map(lambda value: json.dumps(value).encode())


@given(
    ANY_BYTES
    | st.fixed_dictionaries(
        {"metadata": ANY_JSON | st.just({"resourceVersion": "7"}), "items": ANY_JSON}
    ).map(lambda page: json.dumps(page).encode())
)
def test_any_bytes_are_a_page_or_an_error(body: bytes) -> None:
    try:
        page = decode_page(body)
        for item in page.items:
            decode_item(item)
    except ClusterError as error:
        assert error.cause == "malformed"
        assert error.relist
    else:
        assert page.version


@given(
    ANY_BYTES
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["ADDED", "DELETED", "BOOKMARK", "ERROR"]), "object": PODLIKE}
    ).map(lambda event: json.dumps(event).encode())
)
def test_any_line_is_an_event_or_an_error(line: bytes) -> None:
    try:
        event = decode_event(line)
    except ClusterError as error:
        assert error.relist
        assert "\n" not in str(error)
    else:
        assert event.version
        assert (event.pod is None) == (event.kind == "BOOKMARK")


@given(st.lists(st.binary().map(lambda b: b.replace(b"\n", b"")), max_size=8), st.data())
def test_lines_do_not_depend_on_how_the_stream_is_cut(texts: list[bytes], data: Any) -> None:
    stream = b"".join(text + b"\n" for text in texts)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    chunks = [stream[a:b] for a, b in pairwise(sorted([0, *cuts, len(stream)]))]
    assert list(lines(chunks)) == [text for text in texts if text]


def test_a_line_that_is_cut_off_is_an_error_and_not_an_event() -> None:
    stream = lines([b'{"a":1}\n{"b"'])
    assert next(stream) == b'{"a":1}'
    with pytest.raises(ClusterError) as raised:
        next(stream)
    assert raised.value.cause == "dropped"
    assert not raised.value.relist


def test_bytes_are_bounded() -> None:
    endless = iter(lambda: b"x" * 10, b"")
    with pytest.raises(ClusterError, match="too large"):
        whole(endless, 100)
    with pytest.raises(ClusterError, match="too large"):
        next(lines(endless, 100))
    assert decode_status(endless) is None


@given(
    st.integers(100, 999),
    st.dictionaries(st.just("Retry-After"), st.text()),
    ANY_JSON | st.fixed_dictionaries({"message": st.text(min_size=200)}),
)
def test_any_refusal_has_a_cause_and_fits_a_line(
    code: int, headers: dict[str, str], status: Any
) -> None:
    error = refusal(code, headers, status)
    assert error.cause in CAUSES
    assert 0 <= error.retry_after < 10**6
    assert "\n" not in str(error)
    assert len(error.message) < 400


@pytest.mark.parametrize(
    ("after", "seconds"),
    [("7", 7.0), ("", 0.0), ("-1", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0), ("²", 0.0)],
)
def test_retry_after(after: str, seconds: float) -> None:
    assert refusal(429, {"Retry-After": after}, None).retry_after == seconds


def test_an_error_event_always_lists_anew() -> None:
    assert error_event({"code": 410, "message": "too old"}).cause == "gone"
    assert error_event({"code": "410"}).cause == "server"
    assert error_event({"code": 500}).relist
