"""Which container holds which card."""

from __future__ import annotations

import pytest

from hami_cache.allocwatch.claims import (
    Claim,
    Holder,
    card_of,
    claims_of,
    on_cards,
    without_ended,
)
from hami_cache.node.podresources import Allocation
from hami_cache.node.pods import Pod, PodView

UUID = "GPU-6c9b66f5-ab18-ed84-9adb-cbbde8270654"


@pytest.mark.parametrize(
    ("device_id", "card"),
    [
        ("GPU-x", "GPU-x"),
        ("GPU-x::3", "GPU-x"),
        ("GPU-x::19", "GPU-x"),
        ("nvidia0/vgpu1", "nvidia0"),
        (f"{UUID}-7", UUID),
        (UUID, UUID),
        ("GPU-ba41835f-7", "GPU-ba41835f-7"),
        ("GPU-x::", "GPU-x::"),
        ("GPU-x::a", "GPU-x::a"),
        ("::3", "::3"),
        ("", ""),
        ("GPU-x::3\n", "GPU-x::3\n"),
    ],
)
def test_the_card_behind_a_device_id(device_id: str, card: str) -> None:
    assert card_of(device_id) == card


def test_three_pods_on_replicas_of_one_card_are_three_claims() -> None:
    listed = [
        Allocation("work", f"p-{i}", "main", "nvidia.com/gpu.shared", (f"GPU-x::{i}",))
        for i in range(3)
    ]
    assert claims_of(listed) == []
    claims = on_cards(claims_of(listed, "nvidia.com/gpu.shared"))
    assert claims == [Claim("GPU-x", Holder("work", f"p-{i}", "main")) for i in range(3)]


def test_two_replicas_of_one_container_are_two_claims_on_one_card() -> None:
    listed = [Allocation("work", "p", "main", "nvidia.com/gpu", ("GPU-x::5", "GPU-x::19"))]
    assert on_cards(claims_of(listed)) == [Claim("GPU-x", Holder("work", "p", "main"))] * 2


def view(*pods: Pod, fresh: bool) -> PodView:
    return PodView(pods={pod.uid: pod for pod in pods}, known=True, fresh=fresh)


def test_a_pod_from_running_to_succeeded_to_gone() -> None:
    claims = [Claim("GPU-x", Holder("work", "p", "main"))]
    running = Pod("uid-1", "p", "work", phase="Running")
    succeeded = Pod("uid-1", "p", "work", phase="Succeeded")
    assert without_ended(claims, view(running, fresh=True)) == claims
    assert without_ended(claims, view(succeeded, fresh=True)) == []
    assert without_ended(claims, view(fresh=True)) == []


def test_a_stale_view_drops_only_what_it_knows_to_have_ended() -> None:
    claims = [Claim("GPU-x", Holder("work", name, "main")) for name in ("p", "q")]
    failed = Pod("uid-1", "p", "work", phase="Failed")
    assert without_ended(claims, view(failed, fresh=False)) == claims[1:]


def test_a_name_that_was_used_again_still_runs() -> None:
    claims = [Claim("GPU-x", Holder("work", "p", "main"))]
    old = Pod("uid-1", "p", "work", phase="Failed")
    new = Pod("uid-2", "p", "work", phase="Running")
    elsewhere = Pod("uid-3", "p", "other", phase="Running")
    assert without_ended(claims, view(old, new, fresh=True)) == claims
    assert without_ended(claims, view(old, elsewhere, fresh=True)) == []
