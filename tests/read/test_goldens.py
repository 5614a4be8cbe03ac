"""What the real writers left reads as a C program read it, field by field, by both engines."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from hami_cache.errors import NotInitialisedError
from hami_cache.model import ANOMALY_KINDS, Snapshot
from hami_cache.read import jsonform
from hami_cache.read.cache import Engine, open_cache
from tests import goldens
from tests.goldens import Golden

SIGN, WRAP = 1 << 63, 1 << 64


def inspected(golden: Golden, folder: Path, engine: Engine, layout: str | None = None) -> Any:
    """The JSON of `inspect` of a golden."""
    path = golden.write(folder)
    with open_cache(path, engine=engine, layout=layout) as cache:
        snapshot = cache.snapshot()
        document = jsonform.inspection(cache.identification, snapshot, str(path), cache.file_size)
    return json.loads(json.dumps(document))


def at_rest(slot: Any, below: int) -> str:
    """A slot's verdict when nobody writes, as docs/reading.md has it."""
    if slot["index"] >= below:
        return "unread"
    if slot["seqlock"] is not None and slot["seqlock"] % 2:
        return "stuck"
    if not all(balances(use) for use in slot["used"]):
        return "unbalanced"
    return "unprotected" if slot["seqlock"] is None else "stable"


def balances(use: Any) -> bool:
    parts = use["context"] + use["module"] + use["data"]
    return bool((parts - use["total"]) % WRAP == 0)


def publishable(slot: Any, below: int, device: int, part: str) -> int | str:
    """One term of a device's sum, or the reason why there is none."""
    use = slot["used"][device]
    if use[part] >= SIGN:
        return "counter_underflow"
    verdict = at_rest(slot, below)
    if part == "total" or verdict in ("stable", "unprotected"):
        return int(use[part])
    if verdict == "unbalanced" and balances(use):
        return int(use[part])
    return "stuck_seqlock" if verdict == "stuck" else "sum_mismatch"


def device(view: Any, slots: list[Any], index: int) -> Any:
    header = view["header"]
    below = min(max(header["proc_num"], 0), 1024)
    counted = [slot for slot in slots if slot["counted"]]
    used: dict[str, Any] = {}
    for part in goldens.USED:
        terms = [publishable(slot, below, index, part) for slot in counted]
        reasons = [term for term in terms if isinstance(term, str)]
        total = sum(term for term in terms if isinstance(term, int))
        used[part] = {"absent": reasons[0]} if reasons else total
    uuid = header["uuids"][index]
    has_util = view["meta"]["layout"] != "v0-legacy" if "meta" in view else True
    return {
        "index": index,
        "uuid": uuid if uuid and uuid.isprintable() else {"absent": "uuid_unreadable"},
        "limit": header["limit"][index],
        "sm_limit": header["sm_limit"][index],
        "used": used,
        "sm_util": sum(slot["device_util"][index]["sm"] for slot in counted)
        if has_util
        else {"absent": "not_in_layout"},
    }


def assert_agrees(found: Any, view: Any) -> None:
    """The whole document but its identification and its anomalies."""
    slots = goldens.slots(view)
    below = min(max(view["header"]["proc_num"], 0), 1024)
    for slot in slots:
        slot["consistent"] = at_rest(slot, below) in ("stable", "unprotected")
    assert found["header"] == goldens.header(view)
    assert found["slots"] == slots
    count = min(view["header"]["device_num"], 16)
    assert found["devices"] == [device(view, slots, index) for index in range(count)]
    assert {a["kind"] for a in found["anomalies"]} <= set(ANOMALY_KINDS)


@pytest.mark.parametrize("golden", goldens.params(lambda g: g.plain))
def test_plain_files_read_as_the_compiler_reads_them(
    golden: Golden, engine: Engine, tmp_path: Path
) -> None:
    found = inspected(golden, tmp_path, engine)
    assert found["verdict"] == "identified" or _undecidable(golden, found)
    if found["verdict"] == "identified":
        assert found["layout"] == golden.layout
    assert found["size"] == golden.want["file_size"]
    assert_agrees(found, golden.want)


def _undecidable(golden: Golden, found: Any) -> bool:
    """No slot was ever used, and v1 and v1-seqlock differ in nothing else."""
    return (
        golden.layout in ("v1", "v1-seqlock")
        and golden.want["slots"] == []
        and found["verdict"] == "ambiguous"
        and {c["layout"] for c in found["candidates"][:2]} == {"v1", "v1-seqlock"}
    )


@pytest.mark.parametrize("golden", goldens.params(lambda g: g.synthetic or g.parties))
def test_forced_files_read_as_the_compiler_reads_them(
    golden: Golden, engine: Engine, tmp_path: Path
) -> None:
    """A field that lies elsewhere than it is read from cannot hide: here all differ in value."""
    for layout, view in golden.views().items():
        found = inspected(golden, tmp_path, engine, layout)
        assert found["layout"] == layout
        assert_agrees(found, {"meta": {"layout": layout}, **view})


@pytest.mark.parametrize("golden", goldens.params(lambda g: g.parties))
def test_mixed_files_are_called_mixed_and_have_no_sums(
    golden: Golden, engine: Engine, tmp_path: Path
) -> None:
    found = inspected(golden, tmp_path, engine)
    assert found["verdict"] == "mixed"
    assert {c["layout"] for c in found["candidates"][:2]} == set(golden.parties)
    assert [a["kind"] for a in found["anomalies"]].count("layout_mixed") == 1
    for one in found["devices"]:
        assert set(map(str, (*one["used"].values(), one["sm_util"]))) == {
            "{'absent': 'layout_mixed'}"
        }


@pytest.mark.parametrize("golden", goldens.params(lambda g: g.blank))
def test_unfinished_files_are_not_initialised(
    golden: Golden, engine: Engine, tmp_path: Path
) -> None:
    with pytest.raises(NotInitialisedError) as caught:
        inspected(golden, tmp_path, engine)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("golden", goldens.params(lambda g: g.scenario.startswith("partial")))
def test_unfinished_files_can_be_read_on_request(
    golden: Golden, engine: Engine, tmp_path: Path
) -> None:
    found = inspected(golden, tmp_path, engine, golden.layout)
    assert found["header"] == goldens.header(golden.want)


@pytest.mark.parametrize("golden", goldens.params(lambda g: not g.blank and not g.synthetic))
def test_both_engines_say_the_same(golden: Golden, tmp_path: Path) -> None:
    path = golden.write(tmp_path)
    assert snapshot_by("native", path) == snapshot_by("numpy", path)


def snapshot_by(engine: Engine, path: Path) -> Snapshot:
    with open_cache(path, engine=engine) as cache:
        return dataclasses.replace(cache.snapshot(), retries=0)
