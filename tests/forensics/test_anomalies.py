"""Anomalies that need more than one reported case: bounds, clocks, explanations, hostile bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_cache.errors import LayoutError, SourceError
from hami_cache.forensics import forms
from hami_cache.forensics.anomalies import diagnose
from hami_cache.forensics.explain import EXPLANATIONS
from hami_cache.model import ANOMALY_KINDS
from hami_cache.testing import CacheBuilder
from tests.forensics.helpers import AFTERWARDS, built, doctor, kinds, where
from tests.goldens import LAYOUTS

DOCS = Path(__file__).resolve().parents[2] / "docs" / "doctor.md"


def healthy(layout: str = "v1.2") -> CacheBuilder:
    builder = CacheBuilder(layout).device(sm_limit=50)
    return builder.process(7, memory=[1 << 30], sm_util=[5], monitorused=[1 << 30])


def test_every_kind_is_explained_and_documented() -> None:
    assert set(EXPLANATIONS) == set(ANOMALY_KINDS)
    text = DOCS.read_text()
    assert [kind for kind in ANOMALY_KINDS if f"### {kind}\n" not in text] == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_healthy_file_is_accused_of_nothing(layout: str, tmp_path: Path) -> None:
    assert kinds(built(tmp_path, healthy(layout))) == set()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("number", [-1, 1025, 1 << 30])
def test_proc_num_out_of_range(layout: str, number: int, tmp_path: Path) -> None:
    path = healthy(layout).set("proc_num", number).write(tmp_path / "x.cache")
    found = doctor(path, layout=layout)
    assert where(found, "proc_num_out_of_range") == ["proc_num"]


@pytest.mark.parametrize("priority", [-1, 1 << 16, (1 << 31) - 1])
def test_priority_out_of_range(priority: int, tmp_path: Path) -> None:
    assert kinds(built(tmp_path, healthy().set("priority", priority))) == {"priority_out_of_range"}


@pytest.mark.parametrize("priority", [0, 1, 7])
def test_any_usual_priority_is_fine(priority: int, tmp_path: Path) -> None:
    assert kinds(built(tmp_path, healthy().set("priority", priority))) == set()


def test_status_out_of_range(tmp_path: Path) -> None:
    path = healthy().process(8, status=7).write(tmp_path / "x.cache")
    assert where(doctor(path, layout="v1.2"), "status_out_of_range") == ["procs[1].status"]


def test_duplicate_pid(tmp_path: Path) -> None:
    found = built(tmp_path, healthy().process(7, memory=[5], sm_util=[1], monitorused=[5]))
    assert where(found, "duplicate_pid") == ["procs[1].pid"]
    assert len(found.processes) == 1


def test_stuck_seqlock(tmp_path: Path) -> None:
    found = built(tmp_path, healthy().set("procs[0].seqlock", 7))
    assert where(found, "stuck_seqlock") == ["procs[0].seqlock"]


def test_sum_mismatch(tmp_path: Path) -> None:
    found = built(tmp_path, healthy().set("procs[0].used[0].total", 5))
    assert where(found, "sum_mismatch") == ["procs[0].used[0].total"]


@pytest.mark.parametrize(("ahead", "expected"), [(59, set()), (61, {"last_kernel_in_future"})])
def test_a_launch_in_the_future(ahead: int, expected: set[str], tmp_path: Path) -> None:
    builder = healthy().set("last_kernel_time", int(AFTERWARDS) + ahead)
    assert kinds(built(tmp_path, builder)) == expected


def test_the_clock_counts_when_no_time_is_given(tmp_path: Path) -> None:
    path = healthy().set("last_kernel_time", 1 << 40).write(tmp_path / "x.cache")
    assert kinds(diagnose(path)) == {"last_kernel_in_future"}


def test_before_the_devices_are_known_nobody_looked_for_a_host_pid(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2").process(7, hostpid=0).set("device_num", 0)
    assert kinds(built(tmp_path, builder.set("uuids", b""))) == set()


def test_a_newer_minor_version_is_read_and_told(tmp_path: Path) -> None:
    found = built(tmp_path, healthy().set("minor_version", 3))
    assert where(found, "layout_unverified") == ["minor_version"]
    assert found.findings[0].offset == 8


def test_what_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        diagnose(tmp_path / "nowhere")
    with pytest.raises(LayoutError, match="v9"):
        diagnose(healthy().write(tmp_path / "x.cache"), layout="v9")


BASE = {layout: healthy(layout).build() for layout in ("v0", "v1-seqlock", "v1.2")}
SPOTS = st.one_of(
    st.integers(0, 6000), st.integers(1_197_800, 1_197_900), st.integers(2_008_800, 2_008_990)
)


@settings(max_examples=60, deadline=None)
@given(
    layout=st.sampled_from(sorted(BASE)),
    patches=st.lists(st.tuples(SPOTS, st.binary(min_size=1, max_size=16)), max_size=12),
    cut=st.one_of(st.none(), st.integers(0, 2_010_000)),
)
def test_no_bytes_are_too_strange(
    layout: str,
    patches: list[tuple[int, bytes]],
    cut: int | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = bytearray(BASE[layout])
    for offset, raw in patches:
        data[offset : offset + len(raw)] = raw
    path = tmp_path_factory.mktemp("fuzz") / "x.cache"
    path.write_bytes(data[:cut])
    found = doctor(path)
    size = len(data[:cut])
    for finding in found.findings:
        assert finding.anomaly.kind in ANOMALY_KINDS
        assert finding.offset is None or 0 <= finding.offset < size
    assert forms.diagnosis(found)["verdict"] == found.verdict
