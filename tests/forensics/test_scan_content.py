"""Contents without their holes are the same contents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.errors import SourceError
from hami_cache.forensics.scan_content import BLOCK, Workspace, squeeze
from hami_cache.read.source import open_regular
from hami_cache.testing import CacheBuilder

PIECES = st.lists(
    st.tuples(st.integers(0, 6 * BLOCK), st.binary(min_size=1, max_size=9)), max_size=6
)


def with_pieces(size: int, pieces: list[tuple[int, bytes]]) -> bytes:
    data = bytearray(size)
    for offset, piece in pieces:
        data[offset : offset + len(piece)] = piece[: max(size - offset, 0)]
    return bytes(data[:size])


@given(st.lists(st.tuples(st.integers(0, 6 * BLOCK), PIECES), min_size=1, max_size=4))
def test_squeezed_and_unfolded_again(contents: list[tuple[int, list[tuple[int, bytes]]]]) -> None:
    workspace = Workspace()
    for size, pieces in contents:  # one after the other: nothing of the last one may stay
        data = with_pieces(size, pieces)
        assert bytes(workspace.unfold(squeeze(data))) == data


def test_a_real_cache_squeezes_to_what_was_written() -> None:
    data = CacheBuilder("v1.2").process(7, memory=[1 << 20]).build()
    content = squeeze(data)
    assert content.size == len(data)
    assert sum(len(piece) for _, piece in content.extents) <= 5 * BLOCK


@pytest.mark.parametrize("sparse", [True, False])
def test_a_file_is_loaded_as_it_lies(tmp_path: Path, sparse: bool) -> None:
    workspace = Workspace()
    for index, builder in enumerate((CacheBuilder("v1.2").process(7), CacheBuilder("v0"))):
        path = tmp_path / f"{index}.cache"
        if sparse:
            builder.write(path)
        else:
            path.write_bytes(builder.build())
        file = open_regular(path)
        try:
            assert bytes(workspace.load(file, path)) == builder.build()
        finally:
            os.close(file.fd)


def test_a_file_that_is_all_hole(tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    with path.open("wb") as out:
        out.truncate(1 << 20)
    file = open_regular(path)
    try:
        assert bytes(Workspace().load(file, path)) == bytes(1 << 20)
    finally:
        os.close(file.fd)


def test_a_file_that_was_cut_meanwhile_is_shorter(tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    path.write_bytes(b"x" * 3 * BLOCK)
    file = open_regular(path)
    os.truncate(path, BLOCK)
    try:
        view = Workspace().load(file._replace(size=3 * BLOCK), path)
    finally:
        os.close(file.fd)
    assert bytes(view[:BLOCK]) == b"x" * BLOCK and not any(view[BLOCK:])


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    path.write_bytes(b"x" * BLOCK)
    file = open_regular(path)
    os.close(file.fd)
    with pytest.raises(SourceError, match="cannot read"):
        Workspace().load(file, path)
