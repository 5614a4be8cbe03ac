"""Archives for the tests of scan: as tools make them, and as an attacker would."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hami_cache.forensics.scan_archive import Limits, Member, members
from hami_cache.forensics.scan_inputs import Choice

MIB = 1 << 20


def tar(contents: Mapping[str, bytes], *, form: int = tarfile.PAX_FORMAT) -> bytes:
    """An uncompressed tar archive of regular files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tar_of(*infos: tarfile.TarInfo) -> bytes:
    """A tar archive of headers without contents, closed as it should be."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for info in infos:
            archive.addfile(info)
    return out.getvalue()


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A tar header alone."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def hole(size: int) -> bytes:
    """A sparse tar member of nothing but a hole: 512 bytes that stand for up to 8 GiB."""
    raw = bytearray(header("x.cache", 0, tarfile.GNUTYPE_SPARSE))
    raw[386:410] = b"%011o\0%011o\0" % (size, 0)
    raw[483:495] = b"%011o\0" % size
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw)
    return bytes(raw)


def packed(contents: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return out.getvalue()


def gz(data: bytes) -> bytes:
    """Compressed by gzip, the same every time."""
    return gzip.compress(data, mtime=0)


def read(
    data: bytes, name: str = "a.tar", choice: Choice | None = None, limits: Limits | None = None
) -> list[Member]:
    """Every member of an archive in memory."""
    return list(members(io.BytesIO(data), name, choice or Choice(), limits or Limits()))


def contents(found: Sequence[Member]) -> dict[str, bytes]:
    """What could be read, by name."""
    assert not [member.problem for member in found if member.problem]
    return {member.name: member.data for member in found}


def files(folder: Path) -> dict[str, bytes]:
    """The caches of a folder by their relative names."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.cache")}
