"""The cards, claims, readings and override files of the real allocwatch and mockctl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_cache.allocwatch.claims import Claim, Holder, claims_of
from hami_cache.allocwatch.overrides import Overrides, merged, publish
from hami_cache.allocwatch.profile import ProfileError, devices_of
from hami_cache.allocwatch.reconcile import Device, FractionPolicy, Memory, Reading, reconcile
from hami_cache.errors import ConfigError
from hami_cache.node.podresources import parse_list
from tests.allocwatch.kubelet import pod_list
from tests.vectors.loader import cases


@pytest.mark.parametrize("case", cases("allocwatch"))
def test_allocwatch(case: Any, tmp_path: Path) -> None:
    given, want = case["input"], case["want"]
    quirk = case.get("quirk", False)
    match given["kind"]:
        case "devices":
            check_devices(given, want)
        case "claims":
            check_claims(given, want)
        case "reconcile":
            check_reconcile(given, want, quirk)
        case "publish":
            check_publish(given, want, quirk, tmp_path / "overrides.yaml")
        case kind:
            pytest.fail(f"no check for {kind}")


def check_devices(given: Any, want: Any) -> None:
    text = given["profile"].encode()
    if "error" in want:
        with pytest.raises(ProfileError) as caught:
            devices_of(text)
        assert caught.value.kind == want["error"]
        return
    assert devices_of(text) == [device(entry) for entry in want["devices"]]


def check_claims(given: Any, want: Any) -> None:
    claims = claims_of(parse_list(pod_list(given["podResources"])))
    assert claims == [claim(entry) for entry in want["claims"]]


def check_reconcile(given: Any, want: Any, quirk: bool) -> None:
    devices = [device(entry) for entry in given["devices"]]
    policy = FractionPolicy(given["policy"]["usedFractionPerClaim"])
    readings = reconcile(devices, [claim(entry) for entry in given["claims"]], policy)
    document = {"devices": merged(Overrides(), readings).devices}
    expected = [reading(entry) for entry in want["readings"]]
    if not quirk:
        assert readings == expected
        assert document == want["override"]
        return
    # Not copied: a sum that wraps at 64 bits (ours stops at the aperture), and a negative index
    # that upstream writes as "" here and as "-1" when it publishes.
    for ours, theirs, card in zip(readings, expected, devices, strict=True):
        full = Memory(card.aperture_bytes, 0)
        assert ours in (theirs, Reading(card.index, full))
    assert set(document["devices"]) == {str(card.index) for card in devices}


def check_publish(given: Any, want: Any, quirk: bool, path: Path) -> None:
    if given["existing"] is not None:
        path.write_text(given["existing"], newline="")
    before = path.read_bytes() if path.exists() else None
    readings = [reading(entry) for entry in given["readings"]]
    if want["error"] is not None:
        with pytest.raises(ConfigError):
            publish(path, readings)
        assert path.read_bytes() == before
        return
    publish(path, readings)
    text = path.read_text()
    document = yaml.safe_load(text)
    if quirk:
        # Not copied: whole numbers past 2^53 that change on their way through a float.
        assert as_floats(document) == as_floats(want["doc"])
    else:
        assert text == want["yaml"]
        assert document == want["doc"]
    assert path.stat().st_mode & 0o7777 == want["mode"]
    assert sorted(entry.name for entry in path.parent.iterdir()) == want["files"]


def device(entry: Any) -> Device:
    return Device(entry["index"], entry["uuid"], entry["totalBytes"], entry["reservedBytes"])


def claim(entry: Any) -> Claim:
    holder = Holder(entry["namespace"], entry["pod"], entry["container"])
    return Claim(entry["deviceUUID"], holder)


def reading(entry: Any) -> Reading:
    return Reading(entry["index"], Memory(entry["usedBytes"], entry["freeBytes"]))


def as_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: as_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_floats(item) for item in value]
    return float(value) if type(value) is int else value
