"""Go's durations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.durations import parse_duration
from hami_cache.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300),
        ("90s", 90),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        ("2h45m30.5s", 9930.5),
        ("300ms", 0.3),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1μs", 1e-6),
        ("7ns", 7e-9),
        (".5s", 0.5),
        ("1.s", 1),
        ("0", 0),
        ("-0", 0),
        ("0s", 0),
        ("+5s", 5),
        ("-1.5h", -5400),
        ("0.3ns", 0),
        ("1m1m", 120),
        ("9223372036854775807ns", 9223372036.854775807),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "s", ".", ".s", "1x", "1 s", "5 m", " 5m", "5m ", "1e3s", "1_0s", "--1s"),
        *("+", "-", "1S", "1d", "5m\n", "1..5s", "\u0663s", "1s" * 60, "1" * 90 + "h"),
        "9223372036854775808ns",
    ],
)
def test_what_is_none_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_duration(text)


@given(st.text(max_size=30) | st.text("0123456789.hmsnuµ+-", max_size=30))
def test_any_text_is_a_duration_or_an_error(text: str) -> None:
    try:
        parse_duration(text)
    except ConfigError as error:
        assert "\n" not in str(error)
