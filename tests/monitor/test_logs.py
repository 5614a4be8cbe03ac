"""Logs: one record is one line, and nothing quoted in it can be taken for another."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hami_cache.errors import ConfigError
from hami_cache.monitor.logs import setup_logging

log = logging.getLogger("hami_cache.somewhere")


Written = Callable[[], str]


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Iterator[Written]:
    """What was written to standard error since the last call; logging is afterwards as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield lambda: capsys.readouterr().err
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("httpx2", "httpcore2", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_a_text_line_says_when_how_bad_who_and_what(written: Written) -> None:
    setup_logging("text", "info")
    log.warning("pod %s is odd", "a/b")
    time, rest = written().split(" ", 1)
    assert rest == "warning hami_cache.somewhere: pod a/b is odd\n"
    assert time.endswith("Z")
    assert datetime.fromisoformat(time).tzinfo is not None


def test_a_json_line_has_the_same_as_members(written: Written) -> None:
    setup_logging("json", "info")
    log.info("größer als %d", 5)
    (line,) = written().splitlines()
    record = json.loads(line)
    assert datetime.fromisoformat(record.pop("time")).tzinfo is not None
    assert record == {
        "level": "info",
        "logger": "hami_cache.somewhere",
        "message": "größer als 5",
    }


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_unexpected_error_stays_on_its_line(written: Written, form: str) -> None:
    setup_logging(form, "info")
    try:
        raise RuntimeError("a\n2026-01-01T00:00:00.000Z error   forged: line")
    except RuntimeError:
        log.exception("a pass failed")
    (line,) = written().splitlines()
    assert "a pass failed" in line
    assert "Traceback" in line
    assert "test_logs.py" in line
    assert line.endswith(r"forged: line" + ('"}' if form == "json" else ""))


@pytest.mark.parametrize("form", ["text", "json"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(name=st.text() | st.sampled_from(["\x1b[2J", "\r\n", "\x85", "\u2028", "\u202e", "\ud800"]))
def test_no_name_forges_a_line_or_steers_a_terminal(written: Written, form: str, name: str) -> None:
    setup_logging(form, "info")
    log.info("found %s here", name)
    text = written()
    text.encode()
    assert text.endswith("\n")
    assert text[:-1].isprintable()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_has_an_end(written: Written, form: str) -> None:
    setup_logging(form, "info")
    log.info("%s", "x" * 1_000_000)
    assert len(written()) < 20_000
    try:
        raise RuntimeError("x" * 1_000_000)
    except RuntimeError:
        log.exception("failed")
    assert len(written()) < 20_000


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_a_level_leaves_out_what_is_below_it(
    written: Written, level: str, expected: list[str]
) -> None:
    setup_logging("json", level)
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)(name)
    assert [json.loads(line)["message"] for line in written().splitlines()] == expected


@pytest.mark.parametrize(
    ("level", "expected"), [("debug", ["w", "e"]), ("info", ["w", "e"]), ("error", ["e"])]
)
@pytest.mark.parametrize("name", ["httpx2", "httpcore2", "httpcore.connection"])
def test_http_clients_do_not_report_every_request(
    written: Written, name: str, level: str, expected: list[str]
) -> None:
    setup_logging("json", level)
    client = logging.getLogger(name)
    client.info("HTTP Request: GET https://10.0.0.1/api/v1/pods")
    client.warning("w")
    client.error("e")
    assert [json.loads(line)["message"] for line in written().splitlines()] == expected


def test_a_second_setup_replaces_the_first(written: Written) -> None:
    setup_logging("text", "info")
    setup_logging("json", "info")
    log.info("once")
    assert len(written().splitlines()) == 1


@pytest.mark.parametrize(("form", "level"), [("xml", "info"), ("text", "loud")])
def test_what_does_not_exist_is_one_clear_line(form: str, level: str) -> None:
    with pytest.raises(ConfigError, match="there is no log"):
        setup_logging(form, level)
