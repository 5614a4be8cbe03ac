"""Public reports of people who run such monitors, as inputs: groups A, B and H, by their row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hami_cache.cli.main import main
from hami_cache.forensics.anomalies import Circumstances, diagnose
from hami_cache.forensics.liveness import HostProcesses
from hami_cache.testing import CacheBuilder, Memory
from tests.forensics.helpers import AFTERWARDS, built, detail, doctor, kinds, where
from tests.goldens import LAYOUTS

GIB = 1 << 30
UUID = "GPU-609c1c3e-5f4b-4a2e-9a3d-0a6f2f2b3c4d"
SEQLOCKED = ("v1-seqlock", "v1-sem", "v1.2")
MEASURING = LAYOUTS[1:]
KERNEL_TIMED = LAYOUTS[2:]


def test_a1_a_region_32_bytes_off_is_read_with_its_own_layout(tmp_path: Path) -> None:
    builder = CacheBuilder("v1-sem").device(UUID, 4 * GIB, 50)
    builder.process(7, memory=[Memory(context=GIB)], sm_util=[20], monitorused=[GIB])
    found = built(tmp_path, builder)
    assert (found.layout, kinds(found)) == ("v1-sem", set())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a3_every_layout_is_told(layout: str, tmp_path: Path) -> None:
    builder = CacheBuilder(layout).device(sm_limit=50)
    builder.process(7, memory=[GIB], sm_util=[20], monitorused=[GIB])
    found = built(tmp_path, builder)
    assert (found.layout, kinds(found)) == (layout, set())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("extra", [0, 1])
def test_a4_a_file_of_sizeof_or_one_byte_more_is_fine(
    layout: str, extra: int, tmp_path: Path
) -> None:
    builder = CacheBuilder(layout).device(sm_limit=50)
    builder.process(7, memory=[GIB], sm_util=[20], monitorused=[GIB])
    found = built(tmp_path, builder.resize(builder.layout.sizeof + extra))
    assert (found.layout, kinds(found)) == (layout, set())


def test_a4_a_cut_file_is_truncated_and_not_an_older_layout(tmp_path: Path) -> None:
    found = built(tmp_path, CacheBuilder("v1.2").process(7, memory=[GIB]).resize(1_500_000))
    assert (found.layout, found.verdict) == (None, "unknown")
    assert kinds(found) == {"truncated"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a4_a_file_bigger_than_its_layout_is_told(layout: str, tmp_path: Path) -> None:
    builder = CacheBuilder(layout).process(7, memory=[GIB], monitorused=[GIB], sm_util=[1])
    path = builder.resize(builder.layout.sizeof + 4096).write(tmp_path / "x.cache")
    assert kinds(doctor(path, layout=layout)) == {"size_mismatch"}


def test_a4_a_file_bigger_than_any_layout_is_read_and_told(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2").process(7, memory=[GIB], monitorused=[GIB], sm_util=[1])
    found = built(tmp_path, builder.resize(3_000_000))
    assert (found.layout, kinds(found)) == ("v1.2", {"size_mismatch"})


def test_a5_an_unknown_version_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = CacheBuilder("v1.2").process(7, memory=[GIB])
    builder.set("major_version", 9).set("minor_version", 9)
    path = builder.write(tmp_path / "x.cache")
    assert main(["doctor", "--json", str(path)]) == 2
    line = capsys.readouterr()
    assert "9.9" in line.err
    (anomaly,) = json.loads(line.out)["anomalies"]
    assert anomaly["kind"] == "layout_unverified"
    assert "9.9" in anomaly["detail"]


@pytest.mark.parametrize("size", [64, 11])
def test_a5_a_short_file_that_claims_a_version_is_truncated(size: int, tmp_path: Path) -> None:
    found = built(tmp_path, CacheBuilder("v1").resize(size))
    assert kinds(found) == {"truncated"}


@pytest.mark.parametrize("number", [17, 1 << 31, (1 << 64) - 1])
def test_a6_more_devices_than_room(number: int, tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2").device(UUID).process(7, memory=[GIB], sm_util=[3])
    found = built(tmp_path, builder.set("device_num", number))
    assert where(found, "device_num_out_of_range") == ["device_num"]
    assert str(number) in detail(found, "device_num_out_of_range")


@pytest.mark.parametrize("raw", [b"", b"\x80\xff\x01\x02", b"\x01\x02\x03"])
def test_a8_a_uuid_that_is_no_text_is_told_and_the_other_device_is_not_blamed(
    raw: bytes, tmp_path: Path
) -> None:
    builder = CacheBuilder("v1.2").device(UUID, sm_limit=50).device(sm_limit=50)
    builder.process(7, memory=[GIB, GIB], sm_util=[3, 3], monitorused=[GIB, GIB])
    found = doctor(builder.set("uuids[0]", raw).write(tmp_path / "x.cache"), layout="v1.2")
    assert where(found, "uuid_unreadable") == ["uuids[0]"]


@pytest.mark.parametrize("content", ["empty", "magic 0", "sparse"])
def test_a10_not_initialised_yet_is_a_state_and_no_error(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    if content == "magic 0":
        CacheBuilder("v1.2").not_initialised().write(path)
    else:
        with path.open("wb") as file:
            file.truncate(0 if content == "empty" else 2_008_953)
    found = doctor(path)
    assert [f.anomaly.severity for f in found.findings] == ["info"]
    assert (found.verdict, kinds(found)) == ("not_initialised", {"not_initialised"})


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a12_a_limit_of_0_with_memory_in_use(layout: str, tmp_path: Path) -> None:
    builder = CacheBuilder(layout).device(limit=0, sm_limit=50)
    found = built(tmp_path, builder.process(7, memory=[2 * GIB], sm_util=[1], monitorused=[GIB]))
    assert kinds(found) == {"limit_unset"}
    assert str(2 * GIB) in detail(found, "limit_unset")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_b1_a_slot_beyond_proc_num_is_told_with_its_amount(layout: str, tmp_path: Path) -> None:
    builder = CacheBuilder(layout).process(1, memory=[100], sm_util=[1], monitorused=[100])
    builder.process(5, memory=[7 * GIB], index=5).set("proc_num", 1)
    found = built(tmp_path, builder)
    assert where(found, "stale_slot") == ["procs[5]"]
    assert str(7 * GIB) in detail(found, "stale_slot")
    assert [process.index for process in found.processes] == [0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_b1_a_slot_that_is_written_unseen_is_a_warning(layout: str, tmp_path: Path) -> None:
    builder = CacheBuilder(layout).process(1, memory=[100], sm_util=[1], monitorused=[100])
    builder.process(1, memory=[7 * GIB], index=5).set("proc_num", 1)
    (finding,) = built(tmp_path, builder).findings
    assert (finding.anomaly.kind, finding.anomaly.severity) == ("stale_slot", "warning")
    assert "procs[0]" in finding.anomaly.detail


@pytest.mark.parametrize("layout", LAYOUTS)
def test_b2_a_dead_slot_is_listed_with_what_it_held(layout: str, tmp_path: Path) -> None:
    builder = CacheBuilder(layout).process(1, memory=[100], sm_util=[1], monitorused=[100])
    found = built(tmp_path, builder.process(2, status=0, memory=[900]))
    assert kinds(found) == {"exited_slot"}
    assert "900" in detail(found, "exited_slot")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_b3_a_counter_below_zero_shows_its_sign(layout: str, tmp_path: Path) -> None:
    builder = CacheBuilder(layout).process(
        1, memory=[Memory(data=(1 << 64) - 1_813_956)], sm_util=[1], monitorused=[100]
    )
    found = built(tmp_path, builder.process(2, memory=[GIB], sm_util=[1], monitorused=[GIB]))
    assert where(found, "counter_underflow") == ["procs[0].used[0].data", "procs[0].used[0].total"]
    assert all("-1813956" in f.anomaly.detail for f in found.findings)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_b4_usage_over_the_limit_gives_both_figures(layout: str, tmp_path: Path) -> None:
    builder = CacheBuilder(layout).device(limit=4 * GIB, sm_limit=50)
    found = built(tmp_path, builder.process(1, memory=[5 * GIB], sm_util=[1], monitorused=[GIB]))
    assert kinds(found) == {"over_limit"}
    for number in (5 * GIB, 4 * GIB, GIB):
        assert str(number) in detail(found, "over_limit")


def test_b6_without_the_hosts_processes_liveness_is_unknown(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2").process(1, hostpid=4_000_000, memory=[GIB], sm_util=[1])
    found = built(tmp_path, builder)
    assert [process.liveness.state for process in found.processes] == ["unknown"]
    assert "dead_process" not in kinds(found)


def test_b6_a_host_pid_that_is_gone_is_told(tmp_path: Path) -> None:
    host = tmp_path / "proc"
    (host / "1").mkdir(parents=True)
    (host / "1" / "status").write_text("NSpid:\t1\n")
    builder = CacheBuilder("v1.2").process(7, hostpid=4711, memory=[GIB], sm_util=[1])
    found = doctor(builder.write(tmp_path / "x.cache"), host=HostProcesses(host))
    assert where(found, "dead_process") == ["procs[0]"]
    assert "4711" in detail(found, "dead_process")


def test_h1_percentages_are_told_to_be_a_sum(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2").device(sm_limit=50)
    builder.process(1, memory=[GIB], sm_util=[80], monitorused=[GIB])
    builder.process(2, memory=[GIB], sm_util=[70], monitorused=[GIB])
    found = built(tmp_path, builder)
    assert kinds(found) == {"utilization_over_100"}
    assert "150" in detail(found, "utilization_over_100")


@pytest.mark.parametrize("layout", MEASURING)
def test_h2_a_process_whose_host_pid_is_unknown_is_not_idle(layout: str, tmp_path: Path) -> None:
    builder = CacheBuilder(layout).device(sm_limit=50).process(1, hostpid=0, memory=[GIB])
    found = built(tmp_path, builder)
    assert kinds(found) == {"hostpid_unknown", "utilization_not_measured"}
    assert "host pid" in detail(found, "utilization_not_measured")


@pytest.mark.parametrize("layout", KERNEL_TIMED)
def test_h2_a_process_that_just_launched_a_kernel_is_not_idle(layout: str, tmp_path: Path) -> None:
    builder = CacheBuilder(layout, last_kernel_time=int(AFTERWARDS) - 1).device(sm_limit=50)
    found = built(tmp_path, builder.process(1, memory=[GIB]))
    assert kinds(found) == {"utilization_not_measured"}


@pytest.mark.parametrize("layout", KERNEL_TIMED)
def test_h2_a_process_that_launched_nothing_lately_may_be_idle(layout: str, tmp_path: Path) -> None:
    builder = CacheBuilder(layout, last_kernel_time=int(AFTERWARDS) - 3600).device(sm_limit=50)
    assert kinds(built(tmp_path, builder.process(1, memory=[GIB]))) == set()


def test_h2_a_watcher_that_saw_memory_measured_the_0_too(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2", last_kernel_time=int(AFTERWARDS)).device(sm_limit=100)
    builder.process(1, memory=[GIB], sm_util=[0], monitorused=[GIB])
    assert kinds(built(tmp_path, builder)) == set()


@pytest.mark.parametrize("layout", MEASURING)
@pytest.mark.parametrize("sm_limit", [0, 50, 100])
@pytest.mark.parametrize("switch", [0, 1])
def test_h3_the_limit_and_the_switch_are_named_as_the_cause(
    layout: str, sm_limit: int, switch: int, tmp_path: Path
) -> None:
    builder = CacheBuilder(layout, utilization_switch=switch).device(sm_limit=sm_limit)
    found = built(tmp_path, builder.process(1, memory=[GIB]))
    if (sm_limit, switch) == (50, 1):
        assert kinds(found) == set()
        return
    assert kinds(found) == {"utilization_not_measured"}
    cause = "utilization_switch" if switch == 0 else f"sm_limit is {sm_limit}"
    assert cause in detail(found, "utilization_not_measured")


@pytest.mark.parametrize(("sm_limit", "launched"), [(100, 0), (50, AFTERWARDS)])
@pytest.mark.parametrize("filled", [False, True])
def test_h3_a_live_file_is_looked_at_twice(
    sm_limit: int, launched: float, filled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watcher zeroes its fields before it fills them: it may just have been at it."""
    builder = CacheBuilder("v1.2", last_kernel_time=int(launched)).device(sm_limit=sm_limit)
    path = builder.process(1, memory=[GIB]).write(tmp_path / "x.cache")

    def watch(_: float) -> None:
        if filled:
            offset = builder.layout.field("procs[0].monitorused[0]").offset
            with path.open("r+b") as file:
                file.seek(offset)
                file.write(GIB.to_bytes(8, "little"))

    monkeypatch.setattr("hami_cache.forensics.anomalies.time.sleep", watch)
    found = diagnose(path, Circumstances(AFTERWARDS))
    assert kinds(found) == (set() if filled else {"utilization_not_measured"})
