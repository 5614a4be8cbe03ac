"""Allocation annotations: read whole or refused whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.node.allocations import (
    GPUSTACK_ANNOTATION,
    Allocation,
    AllocationError,
    Mode,
    allocations,
    carved_cards,
    gpustack_allocations,
    mig_allocations,
)
from hami_cache.node.annotations import MAX_ANNOTATION_CHARS
from hami_cache.node.hami import (
    HAMI_ANNOTATION,
    HAMI_MIG_ANNOTATION,
    HamiDevice,
    MigAllocation,
    hami_devices,
)
from hami_cache.node.pods import Pod, PodContainer
from hami_cache.node.rows import Placement

CONTAINERS = (
    PodContainer("setup", "init"),
    PodContainer("main", "regular"),
    PodContainer("debug", "ephemeral"),
)
ENTRY: dict[str, Any] = {
    "containerIndex": 1,
    "deviceIndex": 0,
    "gpuUUID": "GPU-0",
    "profile": "1g.10gb",
    "placement": {"start": 2, "size": 1},
    "migUUID": "MIG-0",
    "gpuInstanceID": 7,
    "computeInstanceID": 0,
}
MADE = MigAllocation("main", 0, "GPU-0", "1g.10gb", Placement(2, 1), "MIG-0", 7, 0)
RUNTIME = ("migUUID", "gpuInstanceID", "computeInstanceID")


def pod(**annotations: str) -> Pod:
    keys = {"gpustack": GPUSTACK_ANNOTATION, "hami": HAMI_ANNOTATION, "mig": HAMI_MIG_ANNOTATION}
    return Pod(
        uid="u",
        name="p",
        namespace="n",
        annotations={keys[name]: text for name, text in annotations.items()},
        containers=CONTAINERS,
    )


def mig_pod(*entries: dict[str, Any]) -> Pod:
    return pod(mig=json.dumps(entries))


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in ENTRY.items() if name not in names}


def test_hami_devices() -> None:
    text = "GPU-0,NVIDIA,3000,30:GPU-1[0-2],NVIDIA-A100,4000,0:;;GPU-2,NVIDIA,1,100:;"
    assert hami_devices(pod(hami=text)) == (
        (HamiDevice("GPU-0", "NVIDIA", 3000, 30), HamiDevice("GPU-1", "NVIDIA-A100", 4000, 0)),
        (),
        (HamiDevice("GPU-2", "NVIDIA", 1, 100),),
    )
    assert hami_devices(pod()) == hami_devices(pod(hami="")) == ()
    assert hami_devices(pod(hami=";")) == ((),)


@pytest.mark.parametrize(
    "text",
    ["GPU-0,NVIDIA,3000:;", "GPU-0,3000,30:;", "GPU-0,NVIDIA,-1,30:;", "GPU-0,NVIDIA,3e3,30:;",
     "GPU-0,NVIDIA,,30:;", "GPU-0,NVIDIA,3000,\u0663:;", "GPU-0:;", "\n:;"],
)  # fmt: skip
def test_bad_hami_devices_name_the_pod_and_the_annotation(text: str) -> None:
    with pytest.raises(AllocationError) as caught:
        hami_devices(pod(hami=text))
    assert str(caught.value).startswith("pod n/p: hami.io/vgpu-devices-allocated: ")
    assert "\n" not in str(caught.value)


def test_mig_instances_count_init_containers_first() -> None:
    init = {**ENTRY, "containerIndex": 0, "migUUID": "MIG-1"}
    assert mig_allocations(mig_pod(ENTRY, init)) == (
        MADE,
        MigAllocation("setup", 0, "GPU-0", "1g.10gb", Placement(2, 1), "MIG-1", 7, 0),
    )


def test_mig_reservations_and_containers_that_are_not_there_are_passed_over() -> None:
    reserved = {**without(*RUNTIME), "deviceIndex": 1}
    nowhere = {**ENTRY, "containerIndex": 2}
    assert mig_allocations(mig_pod(ENTRY, reserved, nowhere)) == (MADE,)
    assert mig_allocations(pod()) == mig_allocations(pod(mig="")) == ()
    assert mig_allocations(pod(mig="null")) == mig_allocations(pod(mig="[]")) == ()


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({**ENTRY, "containerIndex": -1}, id="negative container"),
        pytest.param({**ENTRY, "deviceIndex": -1}, id="negative device"),
        pytest.param(without("gpuUUID"), id="no card"),
        pytest.param({**ENTRY, "profile": ""}, id="no profile"),
        pytest.param(without("placement"), id="no placement"),
        pytest.param({**ENTRY, "placement": {"start": 2, "size": 0}}, id="empty placement"),
        pytest.param(without("migUUID"), id="no MIG UUID"),
        pytest.param({**ENTRY, "migUUID": ""}, id="empty MIG UUID"),
        pytest.param(without("gpuInstanceID"), id="no GPU instance"),
        pytest.param({**ENTRY, "computeInstanceID": None}, id="no compute instance"),
        pytest.param(without("gpuInstanceID", "computeInstanceID"), id="only the MIG UUID"),
        pytest.param({**ENTRY, "gpuInstanceID": "7"}, id="instance is a text"),
        pytest.param({**ENTRY, "placement": {"start": -1, "size": 1}}, id="negative start"),
        pytest.param({**ENTRY, "containerIndex": 1.0}, id="index is a float"),
    ],
)
def test_one_bad_mig_entry_makes_the_annotation_an_error(bad: dict[str, Any]) -> None:
    good = {**ENTRY, "deviceIndex": 5}
    with pytest.raises(AllocationError, match=r"hami\.io/vgpu-mig-allocations"):
        mig_allocations(mig_pod(good, bad))


def test_two_mig_entries_for_one_device_of_a_container_are_an_error() -> None:
    reserved = without(*RUNTIME)
    with pytest.raises(AllocationError, match="container 1 has two entries for its device 0"):
        mig_allocations(mig_pod(ENTRY, reserved))


def test_both_schedulers_records_are_allocations() -> None:
    gpustack = {
        "main": {
            "devices": {
                "groups": [
                    {
                        "id": "g",
                        "manufacturer": "amd",
                        "accelerators": [{"id": "GPU-5", "index": 0, "mode": 1}],
                    }
                ]
            }
        }
    }
    held = allocations(
        pod(gpustack=json.dumps(gpustack), hami="GPU-1,NVIDIA,1,0:;", mig=json.dumps([ENTRY]))
    )
    assert held == (
        Allocation("main", "amd", "GPU-5", Mode.EXCLUSIVE),
        Allocation("", "nvidia", "GPU-1", Mode.SLICED),
        Allocation(
            "main", "nvidia", "GPU-0", Mode.PARTITIONED, "1g.10gb", (Placement(2, 1),), "MIG-0"
        ),
    )
    assert carved_cards(held) == {"nvidia": {"GPU-0", "GPU-1"}}


@pytest.mark.parametrize("read", [gpustack_allocations, hami_devices, mig_allocations])
@given(text=st.text())
def test_any_text_is_read_or_refused(read: Callable[[Pod], object], text: str) -> None:
    try:
        read(pod(gpustack=text, hami=text, mig=text))
    except AllocationError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("read", [gpustack_allocations, hami_devices, mig_allocations])
def test_an_endless_annotation_is_refused(read: Callable[[Pod], object]) -> None:
    text = " " * (MAX_ANNOTATION_CHARS + 1)
    with pytest.raises(AllocationError, match="longer than"):
        read(pod(gpustack=text, hami=text, mig=text))
