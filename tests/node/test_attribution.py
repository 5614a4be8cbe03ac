"""Pids to containers, over real files and real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.node.attribution import (
    MAX_PROC_BYTES,
    Attribution,
    Attributor,
    PodIndex,
    backs_instance,
    proc_reader,
)
from hami_cache.node.cgroups import parse_cgroup
from hami_cache.node.hami import HAMI_ANNOTATION
from hami_cache.node.pods import ContainerKind, Owner, Pod, PodContainer

UID = "0a32d6d4-e9ce-0c8d-a190-44c43895677f"
CONTAINER = "9edc57dd2c91c670"
CGROUP = f"0::/kubepods/burstable/pod{UID}/{CONTAINER}\n"
POD = Pod(
    uid=UID,
    name="p",
    namespace="n",
    annotations={HAMI_ANNOTATION: "GPU-0,NVIDIA,1,0:;"},
    containers=(PodContainer("main", "regular", CONTAINER), PodContainer("new", "ephemeral")),
)
MINE = Attribution("attributed", UID, CONTAINER)


def process(root: Path, pid: int, cgroup: str = CGROUP, state: str = "S") -> None:
    directory = root / str(pid)
    directory.mkdir()
    (directory / "cgroup").write_text(cgroup)
    (directory / "stat").write_text(f"{pid} (py (t) S) {state} 1 1")
    (directory / "comm").write_text("python3\n")


def refused(reason: str) -> Attribution:
    return Attribution("unattributed", reason=reason)


def test_a_tree_of_files(tmp_path: Path) -> None:
    process(tmp_path, 1)
    process(tmp_path, 2, cgroup="0::/init.scope\n")
    process(tmp_path, 3, state="Z")
    index = PodIndex.of([POD])
    assert Attributor(index, proc_reader(tmp_path)).resolve([1, 2, 3, 4]) == {
        1: MINE,
        2: refused("no_pod_component"),
        3: refused("zombie"),
        4: refused("exited"),
    }
    assert index.name(MINE) == "main"
    assert index.name(Attribution("attributed", UID, "other")) == ""


def test_invisibility_is_a_verdict_over_one_card(tmp_path: Path) -> None:
    """One pid is read once in a pass, but each card it is on has a verdict of its own."""
    process(tmp_path, 1)
    attributor = Attributor(PodIndex.of([POD]), proc_reader(tmp_path))
    assert attributor.resolve([7, 1]) == {7: refused("exited"), 1: MINE}
    assert attributor.resolve([7]) == {7: refused("pid_namespace_invisible")}
    assert attributor.resolve([]) == {}


def test_each_file_is_read_at_most_twice_however_many_cards_a_pid_is_on(tmp_path: Path) -> None:
    for pid in range(1, 2001):
        process(tmp_path, pid)
    reads: Counter[tuple[int, str]] = Counter()
    read = proc_reader(tmp_path)

    def counting(pid: int, name: str) -> str:
        reads[pid, name] += 1
        return read(pid, name)

    attributor = Attributor(PodIndex.of([POD]), counting)
    for _ in range(8):
        answers = attributor.resolve(range(1, 2001))
    assert set(answers.values()) == {MINE}
    assert len(reads) == 3 * 2000
    assert {name: max(n for (_, f), n in reads.items() if f == name) for _, name in reads} == {
        "cgroup": 2,
        "stat": 1,
        "comm": 1,
    }


def test_this_very_process() -> None:
    read = proc_reader()
    assert read(os.getpid(), "stat").startswith(f"{os.getpid()} (")
    assert read(os.getpid(), "cgroup") == Path("/proc/self/cgroup").read_text()
    [answer] = Attributor(PodIndex(), read).resolve([os.getpid()]).values()
    identity = parse_cgroup(Path("/proc/self/cgroup").read_text())
    assert answer == refused(identity.reason or "unknown_pod")


def test_a_process_that_has_been_reaped_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    with pytest.raises(FileNotFoundError):
        proc_reader()(child.pid, "cgroup")


def test_an_endless_file_is_unreadable(tmp_path: Path) -> None:
    process(tmp_path, 1, cgroup=CGROUP * (MAX_PROC_BYTES // len(CGROUP) + 1))
    process(tmp_path, 2, cgroup=CGROUP * (MAX_PROC_BYTES // len(CGROUP)))
    answers = Attributor(PodIndex.of([POD]), proc_reader(tmp_path)).resolve([1, 2])
    assert answers == {1: refused("unreadable"), 2: MINE}


def test_bytes_that_are_no_text_are_no_identity(tmp_path: Path) -> None:
    process(tmp_path, 1)
    (tmp_path / "1" / "cgroup").write_bytes(CGROUP.encode()[:-1] + b"\xff\n")
    [answer] = Attributor(PodIndex.of([POD]), proc_reader(tmp_path)).resolve([1]).values()
    assert answer == refused("no_container_component")


@given(st.text())
def test_no_cgroup_text_breaks_the_parser(text: str) -> None:
    identity = parse_cgroup(text)
    assert bool(identity.reason) != bool(identity.pod_uid and identity.container_id)


@given(st.text(st.characters(exclude_characters="\n/:"), min_size=1))
def test_a_sibling_segment_never_turns_one_container_into_another(segment: str) -> None:
    """Whatever a tenant names its nested cgroups: it stays itself or is refused."""
    identity = parse_cgroup(f"0::/kubepods/pod{UID}/{CONTAINER}/{segment}\n")
    assert identity.reason or (identity.pod_uid, identity.container_id) == (UID, CONTAINER)


def test_a_segment_that_starts_with_pod_is_the_bare_form_or_nothing() -> None:
    slice_uid = UID.replace("-", "_")
    named = parse_cgroup(f"0::/kubepods-pod{slice_uid}.slice/{CONTAINER}\n")
    assert (named.pod_uid, named.container_id) == (UID, CONTAINER)
    for segment in (f"pods-pod{slice_uid}.slice", f"pod{slice_uid}.slice"):
        assert parse_cgroup(f"0::/{segment}/{CONTAINER}\n").reason == "no_pod_component"


def test_all_three_kinds_of_containers_are_indexed() -> None:
    kinds: tuple[ContainerKind, ...] = ("init", "regular", "ephemeral")
    pod = Pod(
        uid=UID,
        name="p",
        namespace="n",
        containers=tuple(PodContainer(kind, kind, f"id-{kind}") for kind in kinds),
    )
    index = PodIndex.of([pod, Pod(uid="", name="no uid", namespace="n")])
    assert set(index.pods) == {UID}
    assert index.names[UID] == {f"id-{kind}": kind for kind in kinds}
    assert index.pods[UID].containers == set(index.names[UID])


@pytest.mark.parametrize(
    ("owner", "part_of", "instance"),
    [
        (Owner("Instance", "worker.gpustack.ai/v1", "u", True), "u", True),
        (Owner("Instance", "worker.gpustack.ai/v1", "u", False), "u", False),
        (Owner("Instance", "worker.gpustack.ai/v1", "u", True), "other", False),
        (Owner("Instance", "worker.gpustack.ai", "u", True), "u", False),
        (Owner("Instance", "worker.gpustack.ai/v1/x", "u", True), "u", False),
        (Owner("Job", "worker.gpustack.ai/v1", "u", True), "u", False),
    ],
)
def test_gpustack_instances(owner: Owner, part_of: str, instance: bool) -> None:
    labels = {"app.kubernetes.io/part-of": part_of}
    pod = Pod(uid=UID, name="p", namespace="n", labels=labels, owners=(owner,))
    assert backs_instance(pod) is instance


def test_hami_pods_are_instances_by_their_annotation() -> None:
    assert backs_instance(POD)
    assert not backs_instance(
        Pod(uid=UID, name="p", namespace="n", annotations={HAMI_ANNOTATION: ""})
    )
