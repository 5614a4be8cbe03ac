"""Recordings: every sample comes back as it was, in whatever way the caches changed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hami_cache.forensics import history
from hami_cache.forensics.history import Recording, Sample, replay
from hami_cache.forensics.history_delta import UNCHANGED, apply, diff
from hami_cache.forensics.history_file import FrameWriter, HistoryError, frames
from hami_cache.forensics.history_sample import MAX_SLOTS, readable, unreadable
from hami_cache.forensics.history_series import collect
from hami_cache.read.cache import open_cache
from hami_cache.testing import CacheBuilder, Memory

VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
DOCUMENTS = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc=0"), inner, max_size=3)
    ),
    max_leaves=12,
)
CACHES = st.dictionaries(
    st.sampled_from(("x", "y", "=")), st.dictionaries(st.sampled_from("ab="), DOCUMENTS), max_size=3
)


@given(DOCUMENTS, DOCUMENTS)
def test_a_change_makes_the_new_document_of_the_old_one(old: Any, new: Any) -> None:
    before = repr(old)
    change = diff(old, new)
    if change is UNCHANGED:
        assert repr(old) == repr(new)  # 1 is not True here
    else:
        assert repr(apply(old, change)) == repr(new)
    assert repr(old) == before


def test_only_what_changed_is_named() -> None:
    old = {"devices": [{"used": 1, "limit": 2}, {"used": 3, "limit": 4}], "state": "ready"}
    new = {"devices": [{"used": 1, "limit": 2}, {"used": 5, "limit": 4}], "state": "ready"}
    assert diff(old, new) == {"devices": {"1": {"used": 5}}}


def text(sample: Sample) -> str:
    """A sample as text: True is not 1 there, and the order of the caches does not matter."""
    return json.dumps([sample.time, sample.caches], sort_keys=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(CACHES, max_size=7))
def test_every_sample_comes_back(tmp_path: Path, states: list[Any]) -> None:
    path = tmp_path / "r"
    path.unlink(missing_ok=True)
    samples = [Sample(1000.25 + index, caches) for index, caches in enumerate(states)]
    with pytest.MonkeyPatch.context() as patch, Recording(path) as recording:
        patch.setattr(history, "STREAM", 3)
        for sample in samples:
            recording.add(sample)
    assert list(map(text, replay(path))) == list(map(text, samples))


def test_a_new_stream_begins_from_time_to_time_and_with_every_recorder(tmp_path: Path) -> None:
    path = tmp_path / "r"
    for _ in range(2):
        with Recording(path) as recording:
            for second in range(history.STREAM + 2):
                recording.add(Sample(second, {"x": {"n": second}}))
            assert recording.size == path.stat().st_size
    kinds = [frame.kind for frame in frames(path)]
    assert [i for i, kind in enumerate(kinds) if kind == "K"] == [0, 300, 302, 602]


@pytest.mark.parametrize(
    "messages",
    [
        [("D", {"time": 1})],
        [("K", {"time": 1})],
        [("K", {"caches": {}})],
        [("K", {"time": "x", "caches": {}})],
        [("K", {"time": 1, "caches": {"x": 5}})],
        [("K", {"time": 1, "caches": []})],
        [("K", 7)],
        [("K", {"time": 1, "caches": {}}), ("D", {"time": 2, "changed": {"x": {"a": 1}}})],
        [("K", {"time": 1, "caches": {"x": {}}}), ("D", {"time": 2, "changed": {"x": {"a": 1}}})],
        [("K", {"time": 1, "caches": {"x": {}}}), ("D", {"time": 2, "changed": {"x": 5}})],
    ],
)
def test_frames_that_make_no_sense(tmp_path: Path, messages: list[Any]) -> None:
    with FrameWriter(tmp_path / "r") as writer:
        for kind, message in messages:
            writer.append(kind, message)
    with pytest.raises(HistoryError, match="damaged"):
        list(replay(tmp_path / "r"))


def document(builder: CacheBuilder, folder: Path) -> dict[str, Any]:
    with open_cache(builder.write(folder / "x.cache")) as cache:
        return readable(cache.identification, cache.snapshot())


def test_what_is_kept_of_a_cache(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2").device("GPU-1", 8 << 30, 50).device("GPU-2")
    memory = {0: Memory(context=1, module=2, data=3), 1: Memory(total=(1 << 64) - 1)}
    found = document(builder.process(7, memory=memory, sm_util=[30]), tmp_path)
    assert found["state"] == "ready" and found["layout"] == "v1.2" and found["processes"] == 1
    assert found["devices"][0] == {
        "uuid": "GPU-1", "limit": 8 << 30, "sm_limit": 50, "sm_util": 30,
        "used": {"total": 6, "context": 1, "module": 2, "data": 3},
    }  # fmt: skip
    assert found["devices"][1]["used"]["total"] == {"absent": "counter_underflow"}
    assert found["slots"][0]["pid"] == 7 and found["slots"][0]["sm_util"] == [30, 0]
    assert found["anomalies"]["counter_underflow"] == 1


def test_no_more_slots_than_are_bounded_and_the_counted_ones_first(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2")
    for pid in range(1, 101):
        builder.process(pid, status=int(pid > 90))
    found = document(builder, tmp_path)
    assert len(found["slots"]) == MAX_SLOTS and found["slots_left_out"] == 100 - MAX_SLOTS
    assert [slot["pid"] for slot in found["slots"][:11]] == [*range(91, 101), 1]


def device(used: Any, limit: int = 10, util: Any = 5) -> dict[str, Any]:
    return {"used": {"total": used}, "limit": limit, "sm_util": util}


def cache(*devices: dict[str, Any]) -> dict[str, Any]:
    return {"state": "ready", "devices": list(devices)}


def test_series_have_gaps_where_there_is_no_figure() -> None:
    samples = [
        Sample(1, {"a": cache(device(1))}),
        Sample(2, {"a": cache(device({"absent": "torn"}, 0), device(7)), "b": cache(device(9))}),
        Sample(3, {"a": unreadable("unreadable", "gone"), "b": cache(device(8))}),
        Sample(4, {"a": cache(device(2))}),
    ]
    a0, a1, b0 = collect(samples)
    assert (a0.name, a0.device, a1.device, b0.name) == ("a", 0, 1, "b")
    assert a0.times == [1, 2, 3, 4]
    assert repr(a0.used) == "[1.0, nan, nan, 2.0]"
    assert repr(a0.limit) == "[10.0, nan, nan, 10.0]"
    assert repr(a1.used) == "[nan, 7.0, nan, nan]"
    assert repr(b0.used) == "[nan, 9.0, 8.0, nan]"


def test_samples_that_share_a_point_show_their_highest() -> None:
    samples = [Sample(time, {"a": cache(device(time % 7, util=time % 5))}) for time in range(10)]
    (series,) = collect(samples, group=4)
    assert series.times == [0, 4, 8]
    assert series.used == [3, 6, 2] and series.util == [3, 4, 4]


@given(st.lists(CACHES, max_size=4))
def test_series_of_anything(states: list[Any]) -> None:
    for series in collect(Sample(time, caches) for time, caches in enumerate(states)):
        assert len(series.used) == len(series.util) == len(series.times)
        assert all(math.isnan(v) or isinstance(v, float) for v in series.used)
