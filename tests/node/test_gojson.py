"""Go's rules of reading JSON, as encoding/json of Go 1.26 answered these very texts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.node.gojson import (
    Array,
    Flag,
    GoJsonError,
    Integer,
    Optional,
    Struct,
    Table,
    Text,
    decode,
    quote,
)

RUN = Struct({"start": Integer(-(2**31), 2**31 - 1), "uuids": Array(Text())})
DOCUMENT = Struct(
    {
        "mode": Integer(0, 2**32 - 1),
        "id": Text(),
        "run": RUN,
        "runs": Array(RUN),
        "on": Flag(),
        "maybe": Optional(Integer(0, 255)),
        "table": Table(RUN),
    }
)


def read(text: str) -> dict[str, Any]:
    """The members that differ from their zero values."""
    found = decode(text, DOCUMENT)
    return {name: value for name, value in found.items() if value != DOCUMENT.zero[name]}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('{"mode":4}', {"mode": 4}),
        (' \t\r\n{"MODE":4} ', {"mode": 4}),
        ('{"mode":4,"Mode":5}', {"mode": 5}),
        ('{"Mode":5,"mode":4}', {"mode": 4}),
        ('{"mode":4,"mode":null}', {"mode": 4}),
        ('{"rún":1}', {}),
        ('{"run\u017f":[{"start":1}]}', {"runs": ({"start": 1, "uuids": ()},)}),
        ('{"future":{"mode":[1e999]},"id":"x"}', {"id": "x"}),
        ('{"id":"\\ud800\\ud800\\udc00\\udc00"}', {"id": "\ufffd\U00010000\ufffd"}),
        ('{"maybe":0}', {"maybe": 0}),
        ('{"maybe":0,"maybe":null}', {}),
        ('{"on":true,"on":null}', {"on": True}),
        ('{"run":{"start":-0}}', {}),
        ('{"run":{"start":1},"run":{"uuids":["a"]}}', {"run": {"start": 1, "uuids": ("a",)}}),
        (
            '{"runs":[{"start":1},{"start":2}],"runs":[{"uuids":["a"]}]}',
            {"runs": ({"start": 1, "uuids": ("a",)},)},
        ),
        ('{"runs":[{"start":1}],"runs":null}', {}),
        (
            '{"table":{"a":{"start":1},"a":{"uuids":["b"]},"\\ud800":null}}',
            {"table": {"a": {"start": 0, "uuids": ("b",)}, "\ufffd": {"start": 0, "uuids": ()}}},
        ),
        ("null", {}),
        ("{}", {}),
    ],
)
def test_what_go_reads(text: str, want: dict[str, Any]) -> None:
    assert read(text) == want


@pytest.mark.parametrize(
    "text",
    ["", " ", "{", "{}x", "{}{}", "[]", '"x"', "1", "\ufeff{}", "\xa0{}", "{'id':1}", '{"id":"x",}',
     '{"id":NaN}', '{"future":Infinity}', '{"mode":4.0}', '{"mode":4e0}', '{"mode":-0}',
     '{"mode":-1}', '{"mode":4294967296}', '{"mode":"4"}', '{"mode":true}', '{"mode":04}',
     '{"mode":"x","mode":4}', '{"run":{"start":2147483648}}', '{"run":[]}', '{"runs":{}}',
     '{"id":1}', '{"id":"\n"}', '{"id":"\\x"}', '{"on":1}', '{"maybe":256}', '{"table":[]}',
     '{"table":{"a":1}}', '{"run":{"uuids":["a",null,1]}}', '{"mode":' + "9" * 5000 + "}"],
)  # fmt: skip
def test_what_go_refuses(text: str) -> None:
    with pytest.raises(GoJsonError):
        read(text)


def test_a_refusal_says_where() -> None:
    with pytest.raises(GoJsonError, match=r"^table\.a\.uuids\[1\]: not a string$"):
        read('{"table":{"a":{"uuids":["x",5]}}}')


def test_a_bottomless_document_is_refused() -> None:
    with pytest.raises(GoJsonError):
        read("[" * 200_000)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for source in (text, f'{{"id":"{text}"}}', f'{{"runs":{text}}}'):
        try:
            decode(source, DOCUMENT)
        except GoJsonError as error:
            assert "\n" not in str(error)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["mode", "ID", "run", "runs", "start", "uuids", "table"]), inner
    ),
))  # fmt: skip
def test_any_value_is_read_or_refused(value: Any) -> None:
    try:
        decode(json.dumps(value), DOCUMENT)
    except GoJsonError as error:
        assert "\n" not in str(error)


@given(st.text())
def test_what_is_quoted_is_read_back(text: str) -> None:
    quoted = quote(text)
    assert json.loads(quoted) == re.sub("[\ud800-\udfff]", "\ufffd", text)
    assert not set(quoted) & set("<>&\u2028\u2029\n")


def test_quoting_is_gos() -> None:
    assert quote('a<b>&"\\\b\f\n\r\t\x01\x7f\u2028é\ud800') == (
        '"a\\u003cb\\u003e\\u0026\\"\\\\\\b\\f\\n\\r\\t\\u0001\x7f\\u2028é\\ufffd"'
    )
