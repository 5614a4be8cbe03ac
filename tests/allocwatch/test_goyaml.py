"""YAML as Go reads and writes it: goldens of the real library, and hostile texts."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.allocwatch.goyaml import Json, dump, load
from hami_cache.allocwatch.goyaml.reader import MAX_DEPTH, MAX_NODES
from hami_cache.allocwatch.goyaml.scalars import INT_MIN, UINT_MAX, go_float
from hami_cache.allocwatch.overrides import parse, render
from hami_cache.errors import ConfigError

GOLDENS = json.loads((Path(__file__).parent.parent / "data" / "goyaml.json").read_text())


@pytest.mark.parametrize("case", GOLDENS["read"], ids=lambda case: case["text"][:40])
def test_texts_are_read_as_by_go(case: Any) -> None:
    text = case["text"].encode()
    if case["yaml"] is None:
        with pytest.raises(ConfigError):
            parse(text)
    else:
        assert render(parse(text)).decode() == case["yaml"]


@pytest.mark.parametrize("case", GOLDENS["write"], ids=lambda case: case["yaml"][:40])
def test_values_are_written_as_by_go(case: Any) -> None:
    assert dump(case["value"]) == case["yaml"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.5, "0.5"),
        (-123456.0, "-123456"),
        (1e6, "1e+06"),
        (1234567.5, "1.2345675e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e21, "1e+21"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
    ],
)
def test_floats_are_spelled_as_by_go(value: float, text: str) -> None:
    assert go_float(value) == text


def test_a_merge_key_is_quoted_so_that_it_can_be_read_again() -> None:
    assert load(dump({"<<": 5}).encode(), strict=True) == {"<<": 5}


def test_numbers_past_what_a_float_holds_stay_exact() -> None:
    text = b"a: 9007199254740993\nb: 18446744073709551615\n"
    assert dump(load(text, strict=True)).encode() == text


def test_two_keys_that_become_one_must_agree() -> None:
    assert load(b'{0: {a: 1}, "0": {a: 1}}', strict=True) == {"0": {"a": 1}}
    with pytest.raises(ConfigError, match="'0' is there twice"):
        load(b'{0: {a: 1}, "0": {a: 2}}', strict=False)


def test_a_fault_says_where() -> None:
    with pytest.raises(ConfigError, match=r"^line 2, column 5: not YAML: mapping values are not"):
        load(b"a: 1\nb: c: d\n", strict=True)
    with pytest.raises(ConfigError, match=r"^line 2, column 1: the key 'a' is there twice$"):
        load(b"a: 1\na: 2\n", strict=True)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 10_000,
        b"- " * 10_000 + b"x",
        b"a: &a [x]\n" + b"".join(b"k%d: &a [*a]\n" % i for i in range(MAX_DEPTH + 1)),
        b"a: &a [x]\n" + b"".join(b"k%d: &a [%s]\n" % (i, b"*a," * 9) for i in range(12)),
        b"- x\n" * (MAX_NODES + 1),
    ],
    ids=["brackets", "dashes", "chain of aliases", "laughs", "long list"],
)
def test_bombs_are_refused(text: bytes) -> None:
    with pytest.raises(ConfigError):
        load(text, strict=True)


def test_aliases_count_with_all_that_they_bring() -> None:
    hundred = b"a: &a [%s]\n" % (b"x," * 98)
    assert load(hundred + b"b: [%s]\n" % (b"*a," * 450), strict=True)
    with pytest.raises(ConfigError, match="aliases expanded"):
        load(hundred + b"b: [%s]\n" % (b"*a," * 550), strict=True)


characters = st.characters(codec="utf-8", exclude_characters="\ufeff")
texts = st.text(characters, max_size=100) | st.text(" -:#'\"\\\nab?\u2028", max_size=100)
# Whole floats past 2^53 come back as the integer that Go's shortest digits name.
floats = st.floats(-(2**53), 2**53) | st.floats(-1e-300, 1e-300) | st.floats(2**70, 1e300)
numbers = st.integers(INT_MIN, UINT_MAX) | floats
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_what_is_written_is_read_back(value: Json) -> None:
    assert load(dump(value).encode(), strict=True) == value


@given(st.binary(max_size=100) | st.text("{}[]:,-&*!?|>'\"<%@#ab01. \n\t\\xuU", max_size=100))
def test_no_text_crashes_the_reader(text: bytes | str) -> None:
    content = text if isinstance(text, bytes) else text.encode()
    for strict in (True, False):
        with contextlib.suppress(ConfigError):
            load(content, strict=strict)
