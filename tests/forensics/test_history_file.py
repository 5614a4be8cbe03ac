"""The frames of a recording: whole or not there, whatever happens to writer and file."""

from __future__ import annotations

import os
import resource
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hami_cache.errors import ConfigError, SourceError
from hami_cache.forensics import history_file
from hami_cache.forensics.history_file import FRAME, MAGIC, FrameWriter, HistoryError, frames

MESSAGES: list[Any] = [{"time": 1, "caches": {"a": list(range(50))}}, {"time": 2}, [3], "four", 5]


def write(path: Path, messages: list[Any], stream: int = 3) -> None:
    with FrameWriter(path) as writer:
        for index, message in enumerate(messages):
            writer.append("K" if index % stream == 0 else "D", message)


def read(path: Path) -> list[Any]:
    return [frame.message for frame in frames(path)]


def readable(path: Path) -> tuple[list[Any], bool]:
    """What can be read, and whether it ends in an error."""
    found = []
    try:
        for frame in frames(path):
            found.append(frame.message)
    except HistoryError:
        return found, True
    return found, False


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    write(tmp_path / "r", MESSAGES)
    return tmp_path / "r"


def test_there_and_back(recording: Path) -> None:
    assert read(recording) == MESSAGES
    assert [frame.kind for frame in frames(recording)] == ["K", "D", "D", "K", "D"]


def test_what_repeats_costs_next_to_nothing(tmp_path: Path) -> None:
    message = {f"cache-{i}": {"used": i * 12345678} for i in range(200)}
    write(tmp_path / "one", [message])
    write(tmp_path / "many", [message] * 11, stream=100)
    more = (tmp_path / "many").stat().st_size - (tmp_path / "one").stat().st_size
    assert more < 10 * 200 < 10 * len(repr(message))


def test_every_cut_leaves_the_frames_before_it(recording: Path, tmp_path: Path) -> None:
    data = recording.read_bytes()
    ends = [*(frame.offset for frame in list(frames(recording))[1:]), len(data)]
    for cut in range(len(MAGIC), len(data)):
        (tmp_path / "cut").write_bytes(data[:cut])
        assert read(tmp_path / "cut") == MESSAGES[: sum(end <= cut for end in ends)]


def test_a_recorder_goes_on_behind_the_last_whole_frame(recording: Path) -> None:
    data = recording.read_bytes()
    for cut in (len(MAGIC), len(data) - 1, len(data)):
        recording.write_bytes(data[:cut])
        before = read(recording)
        write(recording, ["more", "and more"])
        assert read(recording) == [*before, "more", "and more"]


@pytest.mark.parametrize("size", range(len(MAGIC)))
def test_a_header_that_was_cut_is_written_again(tmp_path: Path, size: int) -> None:
    (tmp_path / "r").write_bytes(MAGIC[:size])
    write(tmp_path / "r", MESSAGES)
    assert read(tmp_path / "r") == MESSAGES


def test_nothing_else_is_overwritten(tmp_path: Path) -> None:
    other = tmp_path / "other"
    for content in (b"x", b"my thesis" * 100, MAGIC[:5] + b"?"):
        other.write_bytes(content)
        with pytest.raises(HistoryError, match="is no recording"):
            FrameWriter(other)
        assert other.read_bytes() == content


def test_read_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with FrameWriter(path) as writer:
        for count, message in enumerate(MESSAGES):
            assert read(path) == MESSAGES[:count]
            writer.append("K" if count == 0 else "D", message)
            assert writer.size == path.stat().st_size


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(len(MAGIC), 200), st.integers(1, 255))
def test_a_damaged_byte_is_noticed_or_looks_like_a_cut(
    recording: Path, tmp_path: Path, place: int, change: int
) -> None:
    data = bytearray(recording.read_bytes())
    place = min(place, len(data) - 1)
    data[place] ^= change
    (tmp_path / "bad").write_bytes(data)
    found, failed = readable(tmp_path / "bad")
    assert found == MESSAGES[: len(found)] and len(found) < len(MESSAGES)
    starts = [frame.offset for frame in frames(recording)]
    in_a_length = any(start <= place < start + 4 for start in starts)
    assert failed or in_a_length


def forged(kind: bytes, packed: bytes) -> bytes:
    payload = kind + packed
    return MAGIC + FRAME.pack(len(payload), zlib.crc32(payload)) + payload


@pytest.mark.parametrize(
    "data",
    [
        forged(b"K", b"?" * 20),
        forged(b"D", b""),
        forged(b"K", zlib.compress(b"not json")),
        forged(b"K", zlib.compress(b"[" * 100_000)),
        forged(b"K", zlib.compress(b"9" * 10_000)),
        MAGIC + FRAME.pack(0, 0),
        MAGIC + FRAME.pack(0xFFFFFFFF, 0) + b"x" * 100,
    ],
)
def test_forged_frames(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "r").write_bytes(data)
    with pytest.raises(HistoryError, match="damaged") as caught:
        read(tmp_path / "r")
    assert caught.value.offset == len(MAGIC)


def test_a_frame_that_blows_up_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_file, "MAX_MESSAGE", 10_000)
    write(tmp_path / "r", ["x" * 9_000, "x" * 20_000])
    found, failed = readable(tmp_path / "r")
    assert (len(found), failed) == (1, True)


def test_only_one_recorder_at_a_time(tmp_path: Path) -> None:
    with (
        FrameWriter(tmp_path / "r"),
        pytest.raises(ConfigError, match="is being written by another recorder"),
    ):
        FrameWriter(tmp_path / "r")
    write(tmp_path / "r", MESSAGES)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_whole_frames(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with FrameWriter(path) as writer:
        writer.append("K", "first")
        for room in (writer.size + 10, writer.size):
            with room_for(room), pytest.raises(ConfigError, match="cannot write"):
                writer.append("K", os.urandom(500).hex())
            assert path.stat().st_size == writer.size
        writer.append("K", "later")
    assert read(path) == ["first", "later"]


@pytest.mark.parametrize("place", ["nowhere/r", "."])
def test_what_cannot_be_written_or_read(tmp_path: Path, place: str) -> None:
    with pytest.raises(ConfigError, match="cannot write"):
        FrameWriter(tmp_path / place)
    with pytest.raises(SourceError):
        read(tmp_path / place)


def test_a_fifo_is_no_recording(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "r")
    with pytest.raises(ConfigError, match="cannot write"):
        FrameWriter(tmp_path / "r")
    with pytest.raises(SourceError, match="FIFO"):
        read(tmp_path / "r")
