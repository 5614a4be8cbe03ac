"""Bytes cut into named pieces: every byte once, in order, under the right name."""

from __future__ import annotations

from pathlib import Path

import pytest

from hami_cache.errors import FieldError
from hami_cache.forensics import values
from hami_cache.forensics.annotate import Piece, changed_bytes, document, pieces, touched
from hami_cache.model import Semaphore
from hami_cache.spec import registry
from hami_cache.testing import CacheBuilder
from tests.goldens import LAYOUTS, Golden, params


def whole(found: list[Piece], size: int) -> bool:
    """Whether the pieces cover the bytes without a hole or an overlap."""
    end = 0
    for piece in found:
        if piece.offset != end or piece.size <= 0:
            return False
        end += piece.size
    return end == size


@pytest.mark.parametrize("one", params(lambda g: g.scenario in ("many", "overdev", "allfields")))
def test_every_byte_belongs_to_one_piece(one: Golden) -> None:
    found = list(pieces(registry.layout(one.layout), one.data))
    assert whole(found, len(one.data))


@pytest.mark.parametrize("one", params(lambda g: g.scenario == "many"))
def test_a_piece_lies_where_its_name_says(one: Golden) -> None:
    layout = registry.layout(one.layout)
    for piece in pieces(layout, one.data):
        if piece.name:
            assert layout.field(piece.name).offset == piece.offset
        if piece.last:
            last = layout.field(piece.last)
            assert last.offset + last.size == piece.offset + piece.size


def test_values_padding_gaps_and_the_tail_are_told_apart() -> None:
    builder = CacheBuilder("v1.2").process(7, memory=[100]).set("procs[0].unused[1]", 9)
    found = list(pieces(builder.layout, builder.build()))
    by_name = {piece.name: piece for piece in found if piece.name}
    assert by_name["procs[0].used[0].total"].value == 100
    assert by_name["procs[0].used[0].unused[0]"].kind == "padding"
    assert by_name["procs[0].used[0].unused[0]"].label == "procs[0].used[0].unused[0..2]"
    assert by_name["procs[0].unused[1]"].value == 9
    assert by_name["procs[1]"].label == "procs[1..1023]"
    assert by_name["sem"].value == Semaphore(1, 0, 128)
    assert by_name["uuids[0]"].value == "GPU-00000000-0000-4000-8000-000000000000"
    assert [(p.offset, p.size) for p in found if p.kind == "gap"] == [
        (by_name["procs[0].status"].offset + 4, 4)
    ]
    assert found[-1] == Piece(builder.layout.sizeof, 1, "", "beyond", True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_field_alone(layout: str) -> None:
    builder = CacheBuilder(layout).process(7, memory=[100])
    data = builder.build()
    (total,) = pieces(builder.layout, data, "procs[0].used[0].total")
    assert (total.name, total.value) == ("procs[0].used[0].total", 100)
    inside = list(pieces(builder.layout, data, "procs[0].used"))
    assert (inside[0].name, inside[-1].label) == (
        "procs[0].used[0].context",
        "procs[0].used[1..15]",
    )
    limits = list(pieces(builder.layout, data, "limit"))
    assert [piece.label for piece in limits] == ["limit[0]", "limit[1..15]"]


def test_a_field_that_is_not_there_is_refused() -> None:
    layout = registry.layout("v1.2")
    with pytest.raises(FieldError, match="nope"):
        list(pieces(layout, bytes(layout.sizeof), "nope"))
    with pytest.raises(FieldError, match="only 100 bytes"):
        list(pieces(layout, bytes(100), "limit[0]"))
    with pytest.raises(FieldError, match="no layout"):
        list(pieces(None, bytes(100), "limit[0]"))


@pytest.mark.parametrize("size", [0, 1, 5, 61, 1859, 1900])
def test_a_cut_file_ends_where_it_ends(size: int) -> None:
    layout = registry.layout("v1.2")
    data = CacheBuilder("v1.2").process(7, memory=[100]).build()[:size]
    found = list(pieces(layout, data))
    assert whole(found, size)
    assert all(piece.kind in ("field", "padding") for piece in found)


def test_bytes_without_a_layout_have_no_names() -> None:
    (piece,) = pieces(None, b"abc")
    assert (piece.offset, piece.size, piece.kind, piece.name) == (0, 3, "unknown", "")
    assert list(pieces(None, b"")) == []


def test_json_leaves_zeros_out() -> None:
    data = CacheBuilder("v1.2").process(7, memory=[100]).build()
    found = document(pieces(registry.layout("v1.2"), data, "procs[0].used[0]"), data)
    used = "6400000000000000"
    assert [item["hex"] for item in found] == [None, None, used, None, used, None]
    assert found[-1]["last"] == "procs[0].used[0].unused[2]"


def test_changes_touch_their_pieces() -> None:
    layout = registry.layout("v1.2")
    before = CacheBuilder("v1.2").process(7, memory=[100]).build()
    after = CacheBuilder("v1.2").process(7, memory=[100]).set("procs[9].status", 2).build()
    changed = changed_bytes(before, after)
    assert changed == [layout.field("procs[9].status").offset]
    names = [piece.name for piece in touched(pieces(layout, after), changed)]
    assert names == ["procs[9].status"]
    assert [piece.name for piece in touched(pieces(layout, before), changed)] == ["procs[1]"]


def test_texts_for_people() -> None:
    assert values.text((1 << 64) - 5) == "18446744073709551611 (-5 as a signed number)"
    assert values.text(5) == "5"
    assert values.text(Semaphore(0, 2, 128)) == "held, value 0, 2 waiting (glibc)"


def test_a_path_leads_to_a_value_a_list_or_an_object(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2").process(7, memory=[100])
    data = builder.build()
    assert values.at(builder.layout, data, "procs[0].used[0].total") == 100
    assert values.at(builder.layout, data, "limit")[:2] == [16 << 30, 0]
    assert values.at(builder.layout, data, "sem") == {"value": 1, "nwaiters": 0, "private": 128}
    slot = values.at(builder.layout, data, "procs[0]")
    assert (slot["pid"], slot["used"][0]["total"], slot["seqlock"]) == (7, 100, 2)
    with pytest.raises(FieldError, match="only 100 bytes"):
        values.at(builder.layout, data[:100], "limit")
