"""The scan as a whole: every state gets its line, in order, whoever examines it."""

from __future__ import annotations

import os
import signal
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from multiprocessing import active_children
from pathlib import Path

import pytest

from hami_cache.errors import HamiCacheError, LayoutError
from hami_cache.forensics import scan_run
from hami_cache.forensics.scan_examine import Settings
from hami_cache.forensics.scan_inputs import Choice, Place
from hami_cache.forensics.scan_row import Row
from hami_cache.forensics.scan_run import find, scan
from hami_cache.forensics.scan_summary import Summary
from hami_cache.spec import registry
from hami_cache.testing import CacheBuilder
from tests.forensics.helpers import AFTERWARDS

SETTINGS = Settings(AFTERWARDS)
LAYOUTS = ("v0-legacy", "v0", "v1", "v1-sem", "v1.2")


def make_fleet(root: Path, count: int) -> None:
    for index in range(count):
        builder = CacheBuilder(LAYOUTS[index % len(LAYOUTS)])
        builder.process(index + 1, memory=[index << 20])
        builder.write(root / f"node{index % 3}" / f"{index:04}_main" / "x.cache")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 files as nodes have them, an archive of them, and what should not be there."""
    root = tmp_path_factory.mktemp("fleet")
    make_fleet(root, 100)
    with tarfile.open(root / "copied.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(root / "node0", "node0")
    odd = root / "node2" / "odd"
    odd.mkdir()
    (odd / "link.cache").symlink_to(root / "node0")
    os.mkfifo(odd / "pipe.cache")
    (odd / "empty.cache").touch()
    (odd / "garbage.cache").write_bytes(b"?" * 5000)
    with (odd / "large.cache").open("wb") as file:
        file.truncate((16 << 20) + 1)
    (odd / "broken.tar").write_bytes(b"?" * 5000)
    return root


def rows(*inputs: Path, processes: int = 1, settings: Settings = SETTINGS) -> list[Row]:
    return list(scan(find(map(str, inputs), settings.choice), settings, processes))


def test_every_file_has_its_line_whatever_its_state(fleet: Path) -> None:
    found = {os.path.basename(r.file): (r.verdict, r.error) for r in rows(fleet / "node2" / "odd")}
    assert found == {
        "broken.tar": ("unknown", "damaged or cut off: ReadError: invalid header"),
        "empty.cache": ("not_initialised", None),
        "garbage.cache": ("unknown", None),
        "large.cache": ("unknown", "16777217 bytes: no cache is larger than 16777216"),
        "link.cache": ("unknown", "is a symbolic link"),
        "pipe.cache": ("unknown", "is a FIFO, not a regular file"),
    }


def test_many_processes_say_what_one_says_in_the_same_order(fleet: Path) -> None:
    one = rows(fleet)
    assert len(one) == 100 + 34 + 6
    assert rows(fleet, processes=3) == one


def test_inside_an_archive_as_outside(fleet: Path) -> None:
    inside = rows(fleet / "copied.tar.gz")
    outside = {row.file.removeprefix(f"{fleet}/"): row for row in rows(fleet / "node0")}
    assert len(inside) == 34
    for row in inside:
        assert row.file.startswith(f"{fleet}/copied.tar.gz::node0/")
        name = row.file.partition("::")[2]
        assert replace(row, file=name) == replace(outside[name], file=name)


def test_an_input_that_is_not_there_has_its_line(tmp_path: Path) -> None:
    (row,) = rows(tmp_path / "nothing")
    assert row.error == "cannot open: No such file or directory"


def test_the_layouts_of_a_folder_are_known_in_every_process(fleet: Path, tmp_path: Path) -> None:
    text = registry.layout("v1.2").path.read_text()
    (tmp_path / "mine.toml").write_text(text.replace('name = "v1.2"', 'name = "mine"'))
    (tmp_path / "v1.2.toml").write_text(text.replace("minor = 2", "minor = 7"))
    settings = replace(SETTINGS, layouts=tmp_path)
    found = rows(fleet, processes=2, settings=settings)
    assert "mine" in {row.layout for row in found}


def test_a_wrong_layout_file_is_told_at_once(fleet: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("?")
    with pytest.raises(LayoutError):
        rows(fleet / "node1", settings=replace(SETTINGS, layouts=tmp_path))


def endless(path: Path) -> Iterator[Place]:
    """The same file for ever; counts how often it was asked for in `taken`."""
    while True:
        taken["places"] += 1
        yield Place(str(path), "file")


taken: Counter[str] = Counter()


@pytest.mark.parametrize("processes", [1, 2])
def test_no_more_is_under_way_than_is_bounded(tmp_path: Path, processes: int) -> None:
    path = CacheBuilder("v0").write(tmp_path / "x.cache")
    taken.clear()
    with closing(scan(endless(path), SETTINGS, processes)) as found:
        assert len(list(islice(found, 100))) == 100
    most = scan_run.FILES * (scan_run.AHEAD * processes + 2)
    assert 100 <= taken["places"] <= most + 100
    assert not active_children()


def test_a_process_that_is_killed_ends_the_scan_with_one_line(tmp_path: Path) -> None:
    path = CacheBuilder("v0").write(tmp_path / "x.cache")
    found = scan(endless(path), SETTINGS, 2)
    next(found)
    for child in active_children():
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(HamiCacheError, match="was killed"):
        for _ in found:
            pass


def test_the_summary_counts_what_passes(fleet: Path) -> None:
    summary = Summary()
    passed = list(summary.counting(iter(rows(fleet / "node2"))))
    assert summary.files == len(passed) == 33 + 6
    assert summary.unopened == 4
    assert summary.layouts["none"] == 6 and summary.layouts["v1.2"] == 6
    assert summary.verdicts["not_initialised"] == 1
    assert summary.anomalies["layout_unverified"] == 1


def test_only_the_names_asked_for_count(fleet: Path) -> None:
    settings = replace(SETTINGS, choice=Choice("garbage.*"))
    found = rows(fleet / "node2", settings=settings)
    assert [os.path.basename(row.file) for row in found] == ["broken.tar", "garbage.cache"]
