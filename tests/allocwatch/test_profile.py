"""Profiles beyond the vectors: what goes wrong, and where it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from hami_cache.allocwatch.profile import MAX_DEVICES, ProfileError, devices_of, load_profile
from hami_cache.allocwatch.reconcile import Device
from hami_cache.errors import SourceError

HEAD = b'version: "1.0"\nsystem:\n  driver_version: "550"\n'


def test_a_profile_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(HEAD + b"devices:\n- uuid: GPU-a\n  memory: {total_bytes: 5}\n")
    assert load_profile(path) == [Device(0, "GPU-a", 5, 0)]


def test_a_missing_profile(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nothing"):
        load_profile(tmp_path / "nothing")


def test_faults_name_the_file_and_the_member(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(HEAD + b"devices:\n- uuid: GPU-a\n- memory: {total_bytes: lots}\n")
    with pytest.raises(ProfileError, match=r"config.yaml: devices\[1\].memory.total_bytes: not a"):
        load_profile(path)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (HEAD + b"  num_devices: %d\n" % (MAX_DEVICES + 1), "validate"),
        (HEAD + b"  num_devices: 9223372036854775808\n", "parse"),
        (HEAD + b"devices: [1]\n", "parse"),
        (HEAD + b"devices:\n- uuid: [1]\n", "parse"),
        (HEAD + b"device_defaults: 5\n", "parse"),
        (HEAD + b"device_defaults: {memory: 5}\n", "parse"),
        (b"- 1\n", "parse"),
        (b"version: 1\nsystem: 5\n", "parse"),
    ],
)
def test_faults(text: bytes, kind: str) -> None:
    with pytest.raises(ProfileError) as caught:
        devices_of(text)
    assert caught.value.kind == kind


def test_a_card_with_null_memory_has_the_default() -> None:
    text = HEAD + b"device_defaults: {memory: {total_bytes: 5}}\ndevices: [{memory: null}, null]\n"
    with pytest.raises(ProfileError, match="same index"):
        devices_of(text)
    assert devices_of(text.replace(b", null]", b"]")) == [Device(0, "", 5, 0)]
