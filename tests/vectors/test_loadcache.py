"""Which file of a container's directory upstream reads, and as what; where we differ, by name.

Upstream looks at the magic number, the size and the major version. We look at the whole content, so
we read layouts that it does not know and refuse files that it would misread.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hami_cache.node.containers import ContainerTree, TrackedCache
from hami_cache.spec.registry import layouts
from tests.vectors.loader import cases

MAGIC = 19920718
SIZES = {size for its in layouts().values() for size in its.file_sizes}
VERSIONS = {(v.major, v.minor) for its in layouts().values() if (v := its.identity.version)}
V0, V1 = (layouts()[name].sizeof for name in ("v0", "v1"))
LARGEST = 16 << 20

OLDER = "a layout that is older than upstream knows"
HUGE = "larger than any cache"
CUT = "cut: no writer leaves a file of this size"
HEADER = "a header that files of this size do not have"
MINOR = "a minor version that nobody knows, and no content to go by"

SEVERAL = "several caches: each is read for itself"
LIBRARY = "a name that ends in .cache is a cache's, whatever else it contains"
CROWD = "libraries are no caches, however many there are"
MISSING = "a directory that is not there is no container, and no error"


@dataclass(frozen=True)
class File:
    """One entry of the directory; a subdirectory has no head."""

    name: str
    size: int = 0
    head: bytes | None = None

    @property
    def words(self) -> tuple[int, int, int]:
        """Magic, major, minor; before v1 the latter are sm_init_flag and half of owner_pid."""
        magic, major, minor = struct.unpack("<iii", (self.head or b"").ljust(12, b"\0"))
        return magic, major, minor

    def upstream(self) -> str:
        """The real program's answer: v0, v1 or the kind of error."""
        magic, major, _ = self.words
        if self.head is None:
            return "os"
        if self.size < 12:
            return "too_small"
        if magic != MAGIC:
            return "bad_magic"
        if V0 <= self.size < V1:
            return "v0"
        return "v1" if self.size >= V1 and major == 1 else "unknown_layout"

    def deviation(self) -> str:
        """Why our answer is another one; "" where it is not."""
        known = self.words[1:] in VERSIONS
        blank = not known and self.words[1] in (0, 1)
        match self.upstream():
            case "unknown_layout" if self.size in SIZES and self.size < V0 and blank:
                return OLDER
            case "v0" | "v1" if self.size > LARGEST:
                return HUGE
            case "v0" | "v1" if self.size not in SIZES and self.size < max(SIZES):
                return CUT
            case "v0" if not blank:
                return HEADER
            case "v1" if not known:
                return MINOR
        return ""

    def ours(self) -> str:
        """What we owe: upstream's answer as corrected by the deviation."""
        why = self.deviation()
        if why == OLDER:
            return "v0"
        answer = self.upstream()
        return "error" if why or answer not in ("v0", "v1") else answer

    def write(self, folder: Path) -> None:
        if self.head is None:
            (folder / self.name).mkdir()
            return
        with (folder / self.name).open("wb") as out:
            out.write(self.head)
            out.truncate(self.size)


def files_of(case: Any) -> list[File]:
    given = case["input"]
    return [
        File(f["name"]) if f.get("dir") else File(f["name"], f["size"], bytes.fromhex(f["head"]))
        for f in given.get("files", [{"name": "a.cache", **given}])
    ]


def load(files: list[File], root: Path, *, missing: bool = False) -> dict[str, str]:
    """What our tree makes of a directory: by file name, in upstream's words."""
    folder = root / "containers" / "uid_main"
    folder.parent.mkdir()
    if not missing:
        folder.mkdir()
    for file in files:
        file.write(folder)
    tree = ContainerTree(root)
    tree.refresh(complete=True)
    found = {n: taken(t) for c in tree.containers.values() for n, t in c.caches.items()}
    tree.close()
    return found


def taken(tracked: TrackedCache) -> str:
    if tracked.cache is None:
        assert tracked.detail and tracked.state != "pending"
        return "error"
    version = tracked.cache.layout.identity.version
    return "v0" if version is None else f"v{version.major}"


@pytest.mark.parametrize("case", cases("loadcache"))
def test_every_cache_is_taken_or_refused_as_upstream_does_or_as_we_say(
    case: Any, tmp_path: Path
) -> None:
    want, files = case["want"], files_of(case)
    missing = case["input"].get("missing", False)
    found = load(files, tmp_path, missing=missing)
    caches = [file for file in files if file.name.endswith(".cache")]
    assert found == {file.name: file.ours() for file in caches}

    whys = {file.deviation() for file in caches} | {folder_deviation(files, missing)}
    if not any(whys):
        assert want["result"] == next(iter(found.values()), "none")
    if len(files) == len(caches) == 1 and folder_deviation(files, missing) == "":
        # The rule that we deviate from is the real one.
        assert caches[0].upstream() == (want["errorKind"] or want["result"])


def folder_deviation(files: list[File], missing: bool) -> str:
    """Where the choice among files differs; "" where it does not."""
    library = [file for file in files if "libvgpu.so" in file.name]
    caches = [file for file in files if file.name.endswith(".cache")]
    if missing:
        return MISSING
    if any(file in library for file in caches):
        return LIBRARY
    if len(caches) > 1:
        return SEVERAL
    return CROWD if len(library) + len(caches) > 2 else ""


HEADS = {
    "blank": struct.pack("<iii", MAGIC, 0, 0),
    "1.1": struct.pack("<iii", MAGIC, 1, 1),
    "1.2": struct.pack("<iii", MAGIC, 1, 2),
    "1.7": struct.pack("<iii", MAGIC, 1, 7),
}


@pytest.mark.parametrize(
    ("size", "head", "why"),
    [
        (804681, "blank", OLDER),
        (804681, "1.1", ""),
        (LARGEST + 1, "1.1", HUGE),
        (1500000, "1.2", CUT),  # A4: upstream reads a cut v1.2 file as v0
        (1197897, "1.2", HEADER),
        (2008953, "1.7", MINOR),
        (2008985, "1.1", ""),
        (2008985, "1.2", ""),
        (1197897, "blank", ""),
    ],
)
def test_the_deviations_are_these(size: int, head: str, why: str, tmp_path: Path) -> None:
    file = File("a.cache", size, HEADS[head])
    assert file.deviation() == why
    assert load([file], tmp_path) == {"a.cache": file.ours()}
