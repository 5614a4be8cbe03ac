"""The section's text: Go's, bounded, and read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.node.gojson import GoJsonError
from hami_cache.slices.section import (
    MAX_JSON_BYTES,
    MAX_PARTITIONS,
    NOT_MEASURED,
    Device,
    Partition,
    Section,
    Usage,
)
from hami_cache.slices.sectionjson import from_json, to_json
from tests.slices.strategies import sections


@given(sections)
def test_what_is_written_is_read_back(section: Section) -> None:
    assert from_json(to_json(section).decode()) == section


@given(st.text())
def test_any_text_is_a_section_or_an_error(text: str) -> None:
    try:
        assert isinstance(from_json(text), Section)
    except GoJsonError as error:
        assert "\n" not in str(error)


def test_zero_is_written_and_absent_is_left_out() -> None:
    section = Section(
        usages=(Usage("nvidia", "u", "c", "d", 0, NOT_MEASURED),),
        devices=(Device("nvidia", "d", cores_reason="unsupported"),),
        partitions=(Partition("nvidia", "u", "c", "d", cores_percent=0),),
    )
    assert to_json(section) == (
        b'{"schemaVersion":1,"usages":[{"manufacturer":"nvidia","podUID":"u","container":"c",'
        b'"deviceID":"d","memoryUsedMiB":0}],"devices":[{"manufacturer":"nvidia","deviceID":"d",'
        b'"coresReason":"unsupported","rowsReturned":0,"rowsAttributed":0,"rowsNonInstance":0,'
        b'"rowsUnreadable":0,"rowsAmbiguous":0,"readsTruncated":0}],"partitions":[{"manufacturer":'
        b'"nvidia","podUID":"u","container":"c","deviceID":"d","coresPercent":0}]}'
    )


def test_an_empty_section_has_nulls() -> None:
    assert to_json(Section()) == b'{"schemaVersion":1,"usages":null,"devices":null}'
    assert (
        to_json(Section(truncated=True))
        == b'{"schemaVersion":1,"truncated":true,"usages":null,"devices":null}'
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"schemaVersion":1.0}',
        '{"usages":[{"memoryUsedMiB":-1}]}',
        '{"usages":[{"memoryUsedMiB":18446744073709551616}]}',
        '{"devices":{}}',
        '{"devices":[{"rowsReturned":"1"}]}',
        '{"truncated":1}',
        "[]",
        "",
    ],
)
def test_a_section_of_wrong_types_is_refused(text: str) -> None:
    with pytest.raises(GoJsonError):
        from_json(text)


def test_a_section_too_long_loses_whole_cards() -> None:
    """Long names: 4096 shares of them are a little more than the reader takes."""
    pods = [f"{i:03d}" + "é" * 480 for i in range(16)]
    section = Section(
        usages=tuple(
            Usage("nvidia", pod, "main", f"GPU-{card:03d}", 1, 1)
            for card in range(256)
            for pod in pods
        ),
        devices=tuple(Device("nvidia", f"GPU-{card:03d}") for card in range(256)),
    )
    text = to_json(section)
    one_card = len(to_json(Section(usages=section.usages[: len(pods)])))
    assert MAX_JSON_BYTES - one_card < len(text) <= MAX_JSON_BYTES
    shrunk = from_json(text.decode())
    assert shrunk.truncated
    assert [d.device_id for d in shrunk.devices] == [d.device_id for d in section.devices]
    for device in shrunk.devices:
        shares = [u for u in shrunk.usages if u.device_id == device.device_id]
        assert device.memory_reason == device.cores_reason == ("" if shares else "bounded")
        assert len(shares) in (0, len(pods))


def test_a_card_whose_very_name_does_not_fit_vanishes() -> None:
    section = Section(
        usages=(Usage("nvidia", "pod", "main", "GPU-1", 7, 7),),
        devices=(Device("nvidia", "GPU-0" * MAX_JSON_BYTES), Device("nvidia", "GPU-1")),
    )
    shrunk = from_json(to_json(section).decode())
    assert [d.device_id for d in shrunk.devices] == ["GPU-1"]
    assert shrunk.usages == section.usages
    assert shrunk.truncated


def test_partitions_are_cut_off_at_the_end() -> None:
    section = Section(
        partitions=tuple(
            Partition("nvidia", f"{i:04d}" + "x" * 2000, "main", "GPU-0")
            for i in range(MAX_PARTITIONS)
        )
    )
    text = to_json(section)
    kept = from_json(text.decode()).partitions
    assert len(text) <= MAX_JSON_BYTES
    assert 1900 < len(kept) < MAX_PARTITIONS
    assert kept == section.partitions[: len(kept)]
    assert json.loads(text)["truncated"] is True
