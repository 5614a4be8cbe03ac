"""One pass: who is asked, what is known, what goes on when a part fails."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from hami_cache.errors import HamiCacheError
from hami_cache.node.allocations import GPUSTACK_ANNOTATION
from hami_cache.node.attribution import ProcRead
from hami_cache.node.hami import HAMI_ANNOTATION, HAMI_MIG_ANNOTATION
from hami_cache.node.pods import NoPods, Pod, PodContainer, PodView
from hami_cache.node.rows import (
    DeviceRows,
    PartitionRow,
    PartitionTarget,
    Placement,
    ProcessRow,
)
from hami_cache.slices.charges import Charge
from hami_cache.slices.collect import Sources, collect, known_pods
from hami_cache.slices.section import Device, Partition, Section, Usage

UID_A = "0a32d6d4-e9ce-0c8d-a190-44c43895677f"
UID_B = "410aef31-c1bc-66d9-c661-611fe472c806"
UID_C = "5b2aef31-c1bc-66d9-c661-611fe472c806"
GIB = 1 << 30


class Cards:
    """A driver with the given rows, which remembers what it was asked."""

    def __init__(
        self, rows: dict[str, DeviceRows], partitions: dict[str, PartitionRow] | None = None
    ) -> None:
        self.asked: list[str] = []
        self._rows = rows
        self._partitions = partitions or {}

    def processes(self, device_ids: Sequence[str]) -> list[DeviceRows]:
        self.asked += device_ids
        return [self._rows[device_id] for device_id in device_ids]

    def partitions(self, targets: Sequence[PartitionTarget]) -> list[PartitionRow]:
        return [self._partitions[target.id] for target in targets]


class Broken:
    """A driver that cannot be asked."""

    def processes(self, device_ids: Sequence[str]) -> list[DeviceRows]:
        raise HamiCacheError("no driver")

    def partitions(self, targets: Sequence[PartitionTarget]) -> list[PartitionRow]:
        raise HamiCacheError("no driver")


def hami_pod(uid: str, *devices: str, name: str = "main", **more: Any) -> Pod:
    shares = "".join(f"{device},NVIDIA,4096,0:" for device in devices)
    return Pod(
        uid=uid,
        name=f"pod-{uid[:4]}",
        namespace="work",
        annotations={HAMI_ANNOTATION: f"{shares};"},
        containers=(PodContainer(name, "regular", container_id(uid)),),
        **more,
    )


def container_id(uid: str) -> str:
    return uid.replace("-", "") * 2


def proc_of(processes: dict[int, str]) -> ProcRead:
    """A /proc in which each pid runs in the one container of a pod; "" is a process of the host."""

    def read(pid: int, name: str) -> str:
        if pid not in processes:
            raise FileNotFoundError(name)
        uid = processes[pid]
        cgroup = f"0::/kubepods/pod{uid}/{container_id(uid)}\n" if uid else "0::/init.scope\n"
        return {"cgroup": cgroup, "stat": f"{pid} (python) S 1", "comm": "python\n"}[name]

    return read


def driver(*rows: DeviceRows) -> dict[str, Cards]:
    return {"nvidia": Cards({row.id: row for row in rows})}


def test_three_sources_meet_in_one_section() -> None:
    """GPU-0 is measured, GPU-1 poisoned by a host process, a MIG instance of GPU-2 reads itself."""
    mig_pod = replace(
        hami_pod(UID_C, "GPU-2"),
        annotations={
            HAMI_MIG_ANNOTATION: json.dumps(
                [
                    {
                        "containerIndex": 0,
                        "deviceIndex": 0,
                        "gpuUUID": "GPU-2",
                        "profile": "1g.10gb",
                        "placement": {"start": 2, "size": 1},
                        "migUUID": "MIG-2",
                        "gpuInstanceID": 7,
                        "computeInstanceID": 0,
                    }
                ]
            ),
            HAMI_ANNOTATION: "GPU-2,NVIDIA,9856,14:;",
        },
    )
    cards = Cards(
        {
            "GPU-0": DeviceRows("GPU-0", rows=(ProcessRow(10, GIB, 10), ProcessRow(11, GIB, 20))),
            "GPU-1": DeviceRows("GPU-1", rows=(ProcessRow(10, GIB, 10), ProcessRow(1, 1, 0))),
            "GPU-2": DeviceRows("GPU-2", "unsupported", "unsupported"),
        },
        {
            "MIG-2": PartitionRow(
                "GPU-2", "1g.10gb", (Placement(2, 1),), "MIG-2", 9856 << 20, 5 << 20,
                cores_reason="unsupported",
            )
        },
    )  # fmt: skip
    collected = collect(
        [hami_pod(UID_A, "GPU-0", "GPU-1"), hami_pod(UID_B, "GPU-0"), mig_pod],
        Sources(
            processes={"nvidia": cards},
            partitions={"nvidia": cards},
            proc=proc_of({10: UID_A, 11: UID_B, 1: ""}),
            capacities={("nvidia", gpu): 81559 for gpu in ("GPU-0", "GPU-1", "GPU-2")},
            charges=(
                Charge(UID_A, "main", "GPU-0", 2 * GIB, 11),
                Charge(UID_A, "main", "GPU-1", 3 * GIB, 33),
            ),
        ),
    )
    assert collected.section == Section(
        usages=(
            Usage("nvidia", UID_A, "main", "GPU-0", 1024, 10),
            Usage("nvidia", UID_B, "main", "GPU-0", 1024, 20),
            Usage("nvidia", UID_A, "main", "GPU-1", 3072, 33),
        ),
        devices=(
            Device("nvidia", "GPU-0", rows_returned=2, rows_attributed=2),
            Device("nvidia", "GPU-1", "no_pod_component", "no_pod_component", 2, 1, 0, 0, 1),
            Device("nvidia", "GPU-2", "unsupported", "unsupported"),
        ),
        partitions=(
            Partition("nvidia", UID_C, "main", "GPU-2", "MIG-2", 9856, 5,
                      cores_reason="unsupported"),
        ),
    )  # fmt: skip
    [finding] = collected.findings
    assert (finding.kind, finding.driver, finding.cache) == ("source_disagreement", 1024, 2048)
    assert collected.problems == ()


def test_pods_that_are_not_known_are_no_section_even_with_cards_to_read() -> None:
    sources = Sources(processes=driver(DeviceRows("GPU-0")), proc=proc_of({}))
    assert collect(None, sources).section is None
    assert collect(None, replace(sources, charges=(Charge("u", "c", "GPU-0", 1, 1),))).section


def test_only_a_view_that_has_had_its_list_is_known() -> None:
    assert known_pods(PodView()) is None
    view = PodView(pods={UID_A: hami_pod(UID_A)}, known=True)
    assert list(known_pods(view) or ()) == [hami_pod(UID_A)]
    assert list(known_pods(NoPods().view()) or ()) == []


def test_only_carved_cards_are_asked() -> None:
    whole = '{"main":{"devices":{"groups":[{"manufacturer":"nvidia","accelerators":[%s]}]}}}'
    exclusive = replace(
        hami_pod(UID_B), annotations={GPUSTACK_ANNOTATION: whole % '{"id":"GPU-9","mode":1}'}
    )
    cards = driver(DeviceRows("GPU-0"), DeviceRows("GPU-9"))
    collect([hami_pod(UID_A, "GPU-0"), exclusive], Sources(processes=cards, proc=proc_of({})))
    assert cards["nvidia"].asked == ["GPU-0"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_holds_nothing(phase: str) -> None:
    cards = driver(DeviceRows("GPU-0"))
    ended = hami_pod(UID_A, "GPU-0", phase=phase)
    assert collect([ended], Sources(processes=cards, proc=proc_of({}))).section is None
    assert cards["nvidia"].asked == []


def test_a_bad_annotation_is_named_and_the_others_go_on() -> None:
    bad = replace(hami_pod(UID_A), annotations={HAMI_ANNOTATION: "GPU-1,NVIDIA,x,0:;"})
    collected = collect(
        [bad, hami_pod(UID_B, "GPU-0")],
        Sources(processes=driver(DeviceRows("GPU-0")), proc=proc_of({})),
    )
    assert collected.section == Section(devices=(Device("nvidia", "GPU-0"),))
    [problem] = collected.problems
    assert str(problem).startswith("pod work/pod-0a32: hami.io/vgpu-devices-allocated: ")


def test_a_driver_that_fails_is_named_and_the_caches_go_on() -> None:
    charge = Charge(UID_A, "main", "GPU-0", GIB, 5)
    sources = Sources(processes={"nvidia": Broken()}, proc=proc_of({}), charges=(charge,))
    collected = collect([hami_pod(UID_A, "GPU-0")], sources)
    assert [str(problem) for problem in collected.problems] == ["no driver"]
    assert collected.section == Section(
        usages=(Usage("nvidia", UID_A, "main", "GPU-0", 1024, 5),),
        devices=(Device("nvidia", "GPU-0", "not_measured", "not_measured"),),
    )


def test_a_cache_cannot_speak_of_a_card_its_pod_was_not_given() -> None:
    """The UUIDs in a cache are the tenant's to write."""
    poisoned = DeviceRows("GPU-0", rows=(ProcessRow(1, 1, 1),))
    sources = Sources(
        processes=driver(poisoned, DeviceRows("GPU-1")),
        proc=proc_of({1: ""}),
        charges=(
            Charge(UID_A, "main", "GPU-0", GIB, 5),
            Charge(UID_A, "main", "GPU-1", GIB, 5),
            Charge("a-pod-without-record", "main", "GPU-0", GIB, 5),
        ),
    )
    pods = [hami_pod(UID_A, "GPU-1"), hami_pod(UID_B, "GPU-0")]
    section = collect(pods, sources).section
    assert section is not None
    assert [(u.pod_uid, u.device_id) for u in section.usages] == [("a-pod-without-record", "GPU-0")]
