"""Files that are no readable cache, each with the words that must be said about it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from hami_cache.testing import CacheBuilder

Make = Callable[[Path], Path]


def written(data: bytes) -> Make:
    """A regular file."""

    def make(folder: Path) -> Path:
        path = folder / "x.cache"
        path.write_bytes(data)
        return path

    return make


def named(name: str) -> Make:
    """A file that is too short, under a name that wants to be more than a name."""

    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(b"x")
        return path

    return make


def fifo(folder: Path) -> Path:
    path = folder / "fifo"
    os.mkfifo(path)
    return path


def folder_itself(folder: Path) -> Path:
    return folder


def symlink(folder: Path) -> Path:
    target = CacheBuilder("v1.2").process(71).write(folder / "target.cache")
    path = folder / "link"
    path.symlink_to(target)
    return path


def symlink_loop(folder: Path) -> Path:
    path = folder / "loop"
    path.symlink_to(path)
    return path


def a_socket(folder: Path) -> Path:
    path = folder / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    return path


def terabyte(folder: Path) -> Path:
    path = folder / "huge.cache"
    path.touch()
    os.truncate(path, 1 << 40)
    return path


def missing(folder: Path) -> Path:
    return folder / "missing.cache"


def below_a_file(folder: Path) -> Path:
    return written(b"x")(folder) / "x.cache"


def too_long(folder: Path) -> Path:
    return folder / ("n" * 300)


BUILDER = CacheBuilder("v1.2").process(71, memory=[1 << 30])

OPENED: dict[str, tuple[Make, str]] = {
    # Opened and looked into: `--json` still says what was seen.
    "empty": (written(b""), "not initialised yet: the file is still empty"),
    "short": (written(b"\0" * 11), "truncated: 11 bytes are too few for a header"),
    "64 bytes": (written(BUILDER.build()[:64]), "truncated: 64 bytes is no layout's size"),
    "cut": (written(BUILDER.build()[:1_500_000]), "truncated: 1500000 bytes"),
    "magic 0": (written(bytes(2008953)), "not initialised yet: the magic number is still 0"),
    "wrong magic": (written(b"\x7fELF" + bytes(2008949)), "not a HAMi cache"),
    "text": (written(b"hello, world\n" * 100), "not a HAMi cache"),
    "major 9": (
        written(CacheBuilder("v1.2").set("major_version", 9).build()),
        "version 9.2: only major version 1 is known",
    ),
    "big-endian": (written((19920718).to_bytes(4, "big") + bytes(2008949)), "big-endian"),
    "a name with a newline": (named("x\nhami-cache: all is well"), "truncated: 1 bytes"),
    "a name with escapes": (named("x\x1b[2J.cache"), "truncated: 1 bytes"),
    "a name of no encoding": (named(os.fsdecode(b"\xff\xfe.cache")), "truncated: 1 bytes"),
}

REFUSED: dict[str, tuple[Make, str]] = {
    # Not even opened, or closed again at once.
    "fifo": (fifo, "is a FIFO, not a regular file"),
    "directory": (folder_itself, "is a directory, not a regular file"),
    "symlink": (symlink, "is a symbolic link; use --follow"),
    "symlink loop": (symlink_loop, "is a symbolic link; use --follow"),
    "socket": (a_socket, "is a socket, not a regular file"),
    "device": (lambda _: Path("/dev/zero"), "is a character device, not a regular file"),
    "1 TB sparse": (terabyte, "1099511627776 bytes: no cache is larger than 16777216"),
    "missing": (missing, "cannot open: No such file or directory"),
    "below a file": (below_a_file, "cannot open: Not a directory"),
    "a name too long": (too_long, "cannot open: File name too long"),
    "NUL in the name": (lambda folder: folder / "a\0b", "a path cannot contain a NUL byte"),
}
