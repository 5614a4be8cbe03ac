"""Archives that lie, break off or blow up: bounded, and said in one line; never a crash."""

from __future__ import annotations

import io
import os
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.errors import SourceError
from hami_cache.forensics import scan_archive
from hami_cache.forensics.scan_archive import Limits, members
from hami_cache.forensics.scan_inputs import Choice
from hami_cache.testing import CacheBuilder
from tests.forensics.archives import MIB, gz, header, hole, packed, read, tar, tar_of

CACHE = CacheBuilder("v0").process(7).build()
SMALL = {f"{index}.cache": bytes([index]) * 700 for index in range(3)}
LARGEST = 16 * MIB


def zeros(size: int) -> bytes:
    """A gzip stream of that many zeros, made without having them."""
    packer = zlib.compressobj(9, wbits=31)
    piece = bytes(MIB)
    return b"".join(packer.compress(piece) for _ in range(size // MIB)) + packer.flush()


def refused(data: bytes, name: str = "a.tar", limits: Limits | None = None) -> str:
    with pytest.raises(SourceError) as caught:
        read(data, name, limits=limits)
    assert str(caught.value).count("\n") == 0
    return caught.value.message


def test_a_member_too_large_for_a_cache_is_not_read() -> None:
    data = tar({"big.cache": bytes(LARGEST + 1), "x.cache": CACHE})
    big, small = read(gz(data), "a.tgz")
    assert big.problem == f"{LARGEST + 1} bytes: no cache is larger than {LARGEST}"
    assert small.data == CACHE


def test_a_sparse_member_of_exabytes_is_not_read() -> None:
    info = tarfile.TarInfo("x.cache")
    info.pax_headers = {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x.cache",
        "GNU.sparse.realsize": str(1 << 62),
    }  # fmt: skip
    info.size = 512
    body = b"1\n0\n0\n".ljust(512, b"\0")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(body))
    (member,) = read(out.getvalue())
    assert member.problem.startswith(f"{1 << 62} bytes")


def test_sparse_members_count_with_their_holes() -> None:
    one = hole(LARGEST)
    data = one * 4 + bytes(1024)
    assert [len(m.data) for m in read(data)] == [LARGEST] * 4
    found = members(io.BytesIO(data), "a.tar", Choice(), Limits(expanded=2 * LARGEST + MIB))
    assert len(next(found).data) == len(next(found).data) == LARGEST
    with pytest.raises(SourceError, match="expands to more than"):
        next(found)


def test_a_compressed_archive_that_blows_up_is_cut_off() -> None:
    filler = header("filler", 1 << 33)
    start = io.BytesIO()
    packer = zlib.compressobj(9, wbits=31)
    start.write(packer.compress(filler))
    for _ in range(64):
        start.write(packer.compress(bytes(MIB)))
    start.write(packer.flush())
    message = refused(start.getvalue(), "a.tar.gz", Limits(expanded=32 * MIB))
    assert message == f"expands to more than {32 * MIB} bytes; the rest was not read"


def test_a_single_file_that_blows_up_takes_no_memory() -> None:
    data = zeros(128 * MIB)
    tracemalloc.start()
    (member,) = read(data, "x.cache.gz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "no cache is larger" in member.problem
    assert peak < 3 * LARGEST


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE])
def test_a_header_of_gigabytes_is_refused_before_it_is_read(kind: bytes) -> None:
    packer = zlib.compressobj(9, wbits=31)
    data = packer.compress(header("x", 1 << 32, kind))
    data += b"".join(packer.compress(bytes(MIB)) for _ in range(64)) + packer.flush()
    tracemalloc.start()
    message = refused(data, "a.tar.gz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert message == "a header at byte 512 is too long"
    assert peak < 8 * MIB


def test_a_map_of_a_sparse_file_that_never_ends() -> None:
    info = tarfile.TarInfo("x.cache")
    info.pax_headers = {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x.cache",
        "GNU.sparse.realsize": "4096",
    }  # fmt: skip
    body = b"9999999\n" + b"0\n0\n" * (1 << 20)
    info.size = len(body)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(body))
    assert "too long" in refused(gz(out.getvalue()), "a.tgz")


def test_more_members_than_anybody_reads() -> None:
    data = tar(SMALL)
    assert len(read(data, limits=Limits(members=3))) == 3
    assert refused(data, limits=Limits(members=2)) == "more than 2 caches; the rest was not read"


def test_a_size_below_zero_leads_nowhere() -> None:
    raw = bytearray(header("x.cache", 0))
    raw[124:136] = struct.pack(">B3xq", 0xFF, -(1 << 20)).replace(b"\0\0\0", b"\xff" * 3, 1)
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw)
    with pytest.raises(SourceError):
        read(bytes(raw) * 3 + bytes(1024))


def test_every_cut_is_noticed() -> None:
    data = tar(SMALL)
    end = len(data.rstrip(b"\0"))
    whole = read(data)
    for cut in range(0, end + 512, 97):
        with pytest.raises(SourceError, match=r"cut off|damaged"):
            read(data[:cut])
    assert read(data[: -(-end // 512) * 512 + 512]) == whole  # one closing block is enough


def test_every_cut_of_a_compressed_archive_is_noticed() -> None:
    data = gz(tar(SMALL))
    for cut in range(0, len(data), 5):
        refused(data[:cut], "a.tgz")


def test_garbage_behind_a_member_is_noticed() -> None:
    data = tar(SMALL)
    position = data.index(b"1.cache")
    assert "damaged" in refused(data[:position] + b"?" * 512 + data[position + 512 :])


def test_a_wrong_checksum_is_noticed() -> None:
    data = bytearray(gz(tar(SMALL)))
    data[-8] ^= 1
    assert "CRC" in refused(bytes(data), "a.tgz")
    assert "CRC" in refused(gz(CACHE)[:-8] + bytes(8), "x.cache.gz")


@pytest.mark.parametrize("name", ["a.tar", "a.tgz", "a.zip", "x.cache.gz"])
def test_what_is_no_archive(name: str) -> None:
    for data in (b"", b"x", b"PK\x03\x04", b"\x1f\x8b", b"\xff" * 5000):
        assert "damaged or cut off" in refused(data, name)


def test_one_damaged_member_of_a_zip_archive_does_not_spoil_the_others() -> None:
    data = bytearray(packed(SMALL, zipfile.ZIP_STORED))
    data[data.index(b"\x01" * 700)] ^= 1
    found = read(bytes(data), "a.zip")
    assert [member.data for member in found] == [SMALL["0.cache"], b"", SMALL["2.cache"]]
    assert "CRC" in found[1].problem


def test_an_encrypted_or_oddly_compressed_member() -> None:
    data = bytearray(packed({"x.cache": b"x"}, zipfile.ZIP_STORED))
    central = data.index(b"PK\x01\x02")
    data[central + 8] |= 1
    assert read(bytes(data), "a.zip")[0].problem == "is encrypted"
    odd = packed({"x.cache": CACHE}, zipfile.ZIP_LZMA)
    assert read(odd, "a.zip")[0].problem == "is compressed by method 14, not deflate"


def test_a_zip_member_that_is_longer_than_it_says() -> None:
    data = bytearray(packed({"x.cache": bytes(4 * MIB)}))
    for mark, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        start = data.index(mark)
        data[start + offset : start + offset + 4] = struct.pack("<I", 100)
    (member,) = read(bytes(data), "a.zip")
    assert "damaged" in member.problem and len(member.data) == 0


def test_zip_members_count_too() -> None:
    data = packed({f"{i}.cache": bytes(8 * MIB) for i in range(4)})
    found = members(io.BytesIO(data), "a.zip", Choice(), Limits(expanded=20 * MIB))
    assert [len(next(found).data), len(next(found).data)] == [8 * MIB] * 2
    with pytest.raises(SourceError, match="expands to more than"):
        next(found)


def test_a_zip_directory_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_archive, "ZIP_DIRECTORY_BYTES", 70_000)
    data = packed({f"{i:0200}": b"" for i in range(400)}, zipfile.ZIP_STORED)
    assert refused(data, "a.zip") == "the directory of the archive is larger than 70000 bytes"


def test_a_name_of_any_length_is_shortened() -> None:
    info = tarfile.TarInfo("n" * 300_000 + "/x.cache")
    info.type = tarfile.SYMTYPE
    (member,) = read(tar_of(info))
    assert len(member.name) == scan_archive.MAX_NAME + 3


@given(st.data())
def test_no_damage_makes_it_crash(data: st.DataObject) -> None:
    name, whole = data.draw(
        st.sampled_from(
            [("a.tar", tar(SMALL)), ("a.tgz", gz(tar(SMALL))), ("a.zip", packed(SMALL)),
             ("a.tar", hole(1024) + bytes(1024)), ("x.cache.gz", gz(CACHE))]
        )
    )  # fmt: skip
    broken = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(broken) - 1))
        broken[place : place + 4] = data.draw(st.binary(min_size=0, max_size=8))
        if not broken:
            break
    try:
        found = read(bytes(broken), name)
    except SourceError as error:
        assert error.path == name
    else:
        assert all(isinstance(member.name, str) for member in found)


def test_nothing_is_written_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name, data in (("a.tgz", gz(tar(SMALL))), ("a.zip", packed(SMALL))):
        assert len(read(data, name)) == len(SMALL)
    assert os.listdir(tmp_path) == []
