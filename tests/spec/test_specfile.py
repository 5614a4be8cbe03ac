"""A wrong layout file gives one error that names file and key; never anything else."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import hami_cache
from hami_cache.errors import LayoutError
from hami_cache.spec import registry, specfile
from hami_cache.spec.identify import identify
from hami_cache.spec.table import offset_table
from tests.goldens import golden
from tests.spec.layout_faults import FAULTS, GOOD, Edit

PATH = Path("somewhere/v1.2.toml")


@pytest.mark.parametrize(("edit", "key", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_one_error_names_file_and_key(edit: Edit, key: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "v1.2.toml"
    path.write_bytes(edit(GOOD).encode("utf-8", "surrogateescape"))
    with pytest.raises(LayoutError) as caught:
        hami_cache.layouts(tmp_path)
    line = str(caught.value)
    assert line.startswith(f"{path}: {key}: " if key else f"{path}: ")
    assert message in line
    assert line.isprintable()


def test_the_file_itself_is_good() -> None:
    assert specfile.parse(GOOD.encode(), PATH).name == "v1.2"


def test_folders_and_files_that_cannot_be_read(tmp_path: Path) -> None:
    def problem(folder: object) -> str:
        with pytest.raises(LayoutError) as caught:
            hami_cache.layouts(folder)  # type: ignore[arg-type]
        return str(caught.value)

    missing = tmp_path / "missing"
    assert (
        problem(missing)
        == f"{missing}: cannot list the folder of layouts: No such file or directory"
    )
    assert "cannot list" in problem("a\0b")
    file = tmp_path / "file"
    file.touch()
    assert "Not a directory" in problem(file)
    (tmp_path / "dir.toml").mkdir()
    assert problem(tmp_path) == f"{tmp_path}/dir.toml: is not a regular file"
    (tmp_path / "dir.toml").rmdir()
    os.mkfifo(tmp_path / "fifo.toml")
    assert problem(tmp_path) == f"{tmp_path}/fifo.toml: is not a regular file"


def test_a_missing_layout_is_told_with_the_known_ones() -> None:
    with pytest.raises(LayoutError, match=r"no layout is called 'v9'; known: v0-legacy, v0, v1"):
        registry.layout("v9")


TOKEN = re.compile(r'"[^"\n]*"|[\w.+-]+|[\[\]{}=,]')
TOKENS = [match.span() for match in TOKEN.finditer(GOOD)]
WORDS = sorted({GOOD[start:stop] for start, stop in TOKENS})
ODD = [
    "-1",
    "0",
    "1e999",
    "nan",
    "true",
    '""',
    '"\\u0000"',
    "[]",
    "{}",
    "[1]",
    "9" * 40,
    "1979-05-27",
]


@settings(max_examples=250, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(TOKENS) - 1),
            st.one_of(
                st.sampled_from(WORDS),
                st.sampled_from(ODD),
                st.integers(-(2**70), 2**70).map(str),
                st.text(max_size=8),
            ),
        ),
        max_size=4,
    )
)
@example([])
def test_any_mutation_is_a_layout_or_an_error(patches: list[tuple[int, str]]) -> None:
    """And what is accepted works: it describes bytes, and identification can use it."""
    text = GOOD
    for index, new in sorted(dict(patches).items(), reverse=True):
        start, stop = TOKENS[index]
        text = text[:start] + new + text[stop:]
    try:
        layout = specfile.parse(text.encode("utf-8", "surrogatepass"), PATH)
    except LayoutError as error:
        assert str(error).startswith(str(PATH))
        assert str(error).isprintable()
        return
    assert layout.dtype.itemsize == layout.sizeof
    assert offset_table(layout).region_size == layout.sizeof
    assert identify(golden("v1.2--busy").data, {layout.name: layout}).verdict


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.integers(0, len(GOOD)))
def test_any_bytes_are_a_layout_or_an_error(noise: bytes, place: int) -> None:
    raw = GOOD.encode()
    for data in (noise, raw[:place] + noise + raw[place + len(noise) :]):
        try:
            specfile.parse(data, PATH)
        except LayoutError as error:
            assert str(error).isprintable()
