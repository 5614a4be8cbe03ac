"""Caches inside archives: the same bytes as outside, from every tool's tar and zip."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from hami_cache.errors import SourceError
from hami_cache.forensics.scan_archive import Limits, members
from hami_cache.forensics.scan_inputs import Choice
from hami_cache.testing import CacheBuilder
from tests.forensics.archives import contents, files, gz, packed, read, tar, tar_of

CACHE = CacheBuilder("v1.2").process(7, memory=[1 << 20]).build()
TWO = {"node/a_main/x.cache": CACHE, "node/b_main/y.cache": CACHE[:-1] + b"!"}

FORMS = (
    "--format=v7", "--format=ustar", "--format=oldgnu", "--format=gnu", "--format=posix",
    "-S --format=gnu", "-S --format=posix --sparse-version=0.0",
    "-S --format=posix --sparse-version=0.1", "-S --format=posix --sparse-version=1.0",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("caches")
    for index, layout in enumerate(("v0", "v1.2", "v1-sem")):
        name = f"{index}-{'long' * 40}_main" if index == 1 else f"{index}_main"
        CacheBuilder(layout).process(index + 1, memory=[1 << 30]).write(root / name / "x.cache")
    (root / "notes.txt").write_text("not a cache")
    return root


@pytest.mark.parametrize("options", FORMS)
@pytest.mark.parametrize("compress", ["", "-z"])
def test_what_gnu_tar_makes(folder: Path, tmp_path: Path, options: str, compress: str) -> None:
    if "v7" in options or "ustar" in options:
        folder = tmp_path / "short"  # these know no long names
        CacheBuilder("v1").process(1).write(folder / "a_main" / "x.cache")
    name = str(tmp_path / ("a.tar.gz" if compress else "a.tar"))
    subprocess.run(
        ["tar", *options.split(), *compress.split(), "-cf", name, "."], cwd=folder, check=True
    )
    with open(name, "rb") as file:
        found = contents(list(members(file, name, Choice(), Limits())))
    assert {os.path.normpath(key): data for key, data in found.items()} == files(folder)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip(folder: Path, method: int) -> None:
    caches = files(folder)
    assert contents(read(packed({**caches, "notes.txt": b"x"}, method), "a.zip")) == caches


def test_a_single_compressed_file() -> None:
    assert contents(read(gz(CACHE), "x.cache.gz")) == {"": CACHE}


def test_a_tar_that_is_compressed_whatever_its_name_says() -> None:
    assert contents(read(gz(tar(TWO)), "a.tar")) == TWO
    assert contents(read(tar(TWO), "a.tar.gz")) == TWO


def test_only_caches_count() -> None:
    data = tar({"x.cache": CACHE, "x.cache.bak": b"1", "libvgpu.so": b"2", "y.cache.gz": b"3"})
    assert list(contents(read(data))) == ["x.cache"]
    assert list(contents(read(data, choice=Choice("*.bak")))) == ["x.cache.bak"]


class Stream(io.BytesIO):
    """What comes through a pipe or from a web server."""

    def seekable(self) -> bool:
        return False

    def seek(self, offset: int, whence: int = 0) -> int:
        raise io.UnsupportedOperation("seek")


@pytest.mark.parametrize(("name", "data"), [("a.tar", tar(TWO)), ("a.tgz", gz(tar(TWO)))])
def test_a_stream_that_cannot_seek(name: str, data: bytes) -> None:
    assert contents(list(members(Stream(data), name, Choice(), Limits()))) == TWO


def test_what_is_skipped_of_a_plain_file_is_not_read() -> None:
    data = tar({"big.bin": bytes(64 << 10), "x.cache": CACHE})
    limits = Limits(expanded=len(CACHE) + (8 << 10))
    assert contents(read(data, limits=limits)) == {"x.cache": CACHE}


def test_rows_come_before_the_end_of_the_archive() -> None:
    found = members(Stream(tar(TWO)[: len(CACHE) + 4096]), "a.tar", Choice(), Limits())
    assert next(found).data == CACHE
    with pytest.raises(SourceError, match="damaged or cut off"):
        next(found)


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_what_is_no_file_gets_its_line(kind: bytes) -> None:
    info = tarfile.TarInfo("x.cache")
    info.type, info.linkname = kind, "/etc/passwd"
    (member,) = read(tar_of(info))
    assert "not a regular file" in member.problem and member.data == b""


def test_a_link_in_a_zip_archive() -> None:
    info = zipfile.ZipInfo("x.cache")
    info.create_system, info.external_attr = 3, 0o120777 << 16
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    (member,) = read(out.getvalue(), "a.zip")
    assert member.problem == "is a link, not a regular file"


def test_a_directory_named_like_a_cache() -> None:
    info = tarfile.TarInfo("y.cache")
    info.type = tarfile.DIRTYPE
    assert read(tar_of(info)) == []
    assert read(packed({"y.cache/": b""}), "a.zip") == []
