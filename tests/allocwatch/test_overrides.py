"""The override file: shared with other writers, and whole whatever happens."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hami_cache.absent import Absent
from hami_cache.allocwatch.goyaml.reader import MAX_BYTES
from hami_cache.allocwatch.overrides import Overrides, merged, parse, publish
from hami_cache.allocwatch.reconcile import Memory, Reading
from hami_cache.errors import ConfigError, HamiCacheError, SourceError

ROOT = Path(__file__).resolve().parent.parent.parent


def program(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.allocwatch.writers", *map(str, arguments)]


def test_writers_do_not_lose_each_others_changes(tmp_path: Path) -> None:
    file = tmp_path / "overrides.yaml"
    programs = [program("watcher", file, 0, 80), program("watcher", file, 1, 80)]
    programs.append(program("ctl", file, 80))
    writers = [subprocess.Popen(each, cwd=ROOT) for each in programs]
    assert [each.wait(60) for each in writers] == [0, 0, 0]
    assert yaml.safe_load(file.read_text()) == {
        "version": 1,
        "all": {"count": 80},
        "devices": {
            str(index): {"memory": {"used_bytes": 80, "free_bytes": 0}} for index in (0, 1)
        },
    }


def test_killed_at_any_line_it_leaves_the_old_or_the_new_document(tmp_path: Path) -> None:
    driver = program("killed", tmp_path / "overrides.yaml")
    output = subprocess.run(driver, cwd=ROOT, timeout=60, check=True, capture_output=True).stdout
    states = [line.split()[1] for line in output.decode().splitlines()]
    assert len(states) > 50
    # Old up to the rename, new from there on, never anything else.
    assert "".join(states) == "1" * states.count("1") + "2" * states.count("2")
    assert states.count("1") > 40 and states.count("2") > 1


def test_the_lock_is_taken_as_the_other_programs_take_it(tmp_path: Path) -> None:
    file = tmp_path / "new" / "folder" / "overrides.yaml"
    publish(file, [])
    lock = os.open(f"{file}.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    waiting = subprocess.Popen(program("watcher", file, 0, 1), cwd=ROOT)
    # The kernel lists who waits for the lock; the writer must come to be among them.
    inode = f":{os.fstat(lock).st_ino} "
    while not any(
        "->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines()
    ):
        assert waiting.poll() is None
    assert parse(file.read_bytes()).devices == {}
    os.close(lock)
    assert waiting.wait(60) == 0
    assert list(parse(file.read_bytes()).devices) == ["0"]


def test_an_absent_reading_leaves_what_stood_there() -> None:
    document = parse(b'devices: {"0": {memory: {used_bytes: 5, free_bytes: 6}, x: 1}}')
    readings = [Reading(0, Absent("torn")), Reading(1, Absent("torn")), Reading(2, Memory(1, 2))]
    devices = merged(document, readings).devices
    assert devices == {**document.devices, "2": {"memory": {"used_bytes": 1, "free_bytes": 2}}}


def test_merging_changes_no_shared_value() -> None:
    document = parse(b'all: &a {memory: {x: 1}}\ndevices: {"0": *a, "1": *a}')
    result = merged(document, [Reading(0, Memory(1, 2))])
    assert result.everywhere == result.devices["1"] == {"memory": {"x": 1}}
    assert document == parse(b'all: &a {memory: {x: 1}}\ndevices: {"0": *a, "1": *a}')


def test_member_names_in_any_case_are_the_same_member() -> None:
    text = b'ALL: {a: 1}\nall: {b: 2}\nDevices: {"1": {}}\ndevices: {"2": {}}\nVERSION: 3\n'
    assert parse(text) == Overrides(3, {"a": 1, "b": 2}, {"1": {}, "2": {}})


def test_a_fault_names_the_file_and_the_member(tmp_path: Path) -> None:
    file = tmp_path / "overrides.yaml"
    file.write_text("devices: {'0': 5}")
    with pytest.raises(ConfigError, match=r"^/.*overrides.yaml: devices.0: not a map$"):
        publish(file, [])
    assert file.read_text() == "devices: {'0': 5}"


@pytest.mark.parametrize("kind", ["folder", "fifo", "large", "folder is a file"])
def test_what_is_no_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "overrides.yaml"
    match kind:
        case "folder":
            file.mkdir()
        case "fifo":
            os.mkfifo(file)
        case "large":
            file.write_text("#" * (MAX_BYTES + 1))
        case _:
            file.touch()
            file = file / "overrides.yaml"
    with pytest.raises(HamiCacheError):
        publish(file, [])
    names = {entry.name for entry in tmp_path.iterdir()}
    assert names <= {"overrides.yaml", "overrides.yaml.lock"}


def test_a_failed_write_leaves_the_old_document_and_no_temporary_file(tmp_path: Path) -> None:
    file = tmp_path / "overrides.yaml"
    publish(file, [])
    before = file.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), limits[1]))
    try:
        with pytest.raises(SourceError, match="cannot write: File too large"):
            publish(file, [Reading(0, Memory(1, 2))])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_a_link_to_nowhere_is_an_empty_document_and_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "overrides.yaml"
    file.symlink_to(tmp_path / "nowhere")
    publish(file, [Reading(0, Memory(1, 2))])
    assert not file.is_symlink()
    assert list(parse(file.read_bytes()).devices) == ["0"]
