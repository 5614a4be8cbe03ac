"""What a scan is asked to look at: files, directories, patterns and archives.

Directories and everything below them may belong to tenants: links are not followed unless asked,
nothing is opened here, and what cannot be listed is reported like a file that cannot be read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from typing import Literal
from urllib.parse import unquote

LOCAL = ("file://", "local://")
URL = re.compile(r"[a-z][a-z0-9+.-]*://")
MAGIC = re.compile(r"[*?[]")
TAR_ENDINGS = (".tar", ".tar.gz", ".tgz")
ZIP_ENDING, GZIP_ENDING = ".zip", ".gz"
ARCHIVE_ENDINGS = (*TAR_ENDINGS, ZIP_ENDING)

MAX_ENTRIES = 250_000
"""Entries of one directory that are looked at: a tenant can make any number."""

Kind = Literal["file", "archive", "trouble"]


@dataclass(frozen=True, slots=True)
class Place:
    """Something to scan.

    Attributes:
        name: a path or a URL.
        kind: ``archive``: a tar or zip archive, or a single file compressed by gzip. ``trouble``: a
            place that cannot be looked into.
        problem: why not.
    """

    name: str
    kind: Kind
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which files of a directory or an archive are caches.

    Attributes:
        pattern: of their names, as in a shell.
        follow: look through symbolic links.
    """

    pattern: str = "*.cache"
    follow: bool = False

    def wants(self, name: str) -> bool:
        """Whether a file of this name is a cache."""
        return fnmatchcase(name, self.pattern)

    def looks_into(self, name: str) -> bool:
        """Whether a file of this name may have caches inside."""
        if name.endswith(ARCHIVE_ENDINGS):
            return True
        return name.endswith(GZIP_ENDING) and self.wants(name.removesuffix(GZIP_ENDING))


def local(name: str) -> str:
    """A path instead of a URL that means one: local files are opened with more care."""
    if name.startswith(LOCAL):
        return unquote(name.partition("://")[2])
    return name


def is_url(name: str) -> bool:
    """Whether a name is a URL and not a path."""
    return URL.match(name) is not None


def kind_of(name: str) -> Kind:
    """What a file is, judged by its name."""
    return "archive" if without_query(name).endswith((*ARCHIVE_ENDINGS, GZIP_ENDING)) else "file"


def without_query(name: str) -> str:
    """A name without what a URL has behind its path: a signature, for example."""
    return name.partition("?")[0] if is_url(name) else name


def find(inputs: Iterable[str], choice: Choice) -> Iterator[Place]:
    """Every file and archive that the inputs name, in a stable order.

    Args:
        inputs: paths and patterns; ``**`` in a pattern is any number of directories.
        choice: what counts inside directories.
    """
    for name in inputs:
        if os.path.lexists(name) or not MAGIC.search(name):
            yield from _path(name, choice)
            continue
        nothing = True
        for match in _expand(name):
            nothing = False
            yield from _path(match, choice)
        if nothing:
            yield Place(name, "trouble", "nothing matches this pattern")


def _path(path: str, choice: Choice) -> Iterator[Place]:
    if not os.path.isdir(path):
        yield Place(path, kind_of(path))
    elif os.path.islink(path) and not choice.follow:
        yield Place(path, "trouble", "is a symbolic link; use --follow to look behind it")
    else:
        yield from _walk(path, choice)


def _walk(root: str, choice: Choice) -> Iterator[Place]:
    """The caches and archives below a directory: of each folder first the files, then the rest."""
    seen: set[tuple[int, int]] = set()
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            if choice.follow and not _first_time(folder, seen):
                continue
            entries, all_of_them = _entries(folder)
        except OSError as error:
            yield Place(folder, "trouble", f"cannot list: {error.strerror}")
            continue
        for entry in entries:
            wanted = choice.wants(entry.name) or choice.looks_into(entry.name)
            if wanted and not _is_folder(entry, choice.follow):
                yield Place(entry.path, kind_of(entry.name))
        if not all_of_them:
            problem = f"has more than {MAX_ENTRIES} entries; the rest was not looked at"
            yield Place(folder, "trouble", problem)
        waiting += [e.path for e in reversed(entries) if _is_folder(e, choice.follow)]


def _first_time(folder: str, seen: set[tuple[int, int]]) -> bool:
    """Whether a folder was not visited before: links can lead back to where we have been."""
    info = os.stat(folder)
    identity = (info.st_dev, info.st_ino)
    if identity in seen:
        return False
    seen.add(identity)
    return True


def _entries(folder: str) -> tuple[list[os.DirEntry[str]], bool]:
    """A folder's entries by name, and whether these are all."""
    with os.scandir(folder or ".") as found:
        entries = list(islice(found, MAX_ENTRIES + 1))
    kept = sorted(entries[:MAX_ENTRIES], key=lambda entry: entry.name)
    return kept, len(kept) == len(entries)


def _is_folder(entry: os.DirEntry[str], follow: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:
        return False


def _expand(pattern: str) -> Iterator[str]:
    """The paths that match a pattern."""
    parts = [part for part in pattern.split("/") if part]
    return _match("/" if pattern.startswith("/") else "", parts)


def _match(folder: str, parts: list[str]) -> Iterator[str]:
    if not parts:
        yield folder
        return
    part, rest = parts[0], parts[1:]
    if part == "**":
        while rest[:1] == ["**"]:
            rest = rest[1:]
        # At the end of a pattern it is the folder itself, with everything below.
        for below in _folders(folder) if rest else [folder]:
            yield from _match(below, rest)
    elif MAGIC.search(part):
        for entry in _listed(folder):
            if fnmatchcase(entry.name, part) and (not rest or _is_folder(entry, True)):
                yield from _match(os.path.join(folder, entry.name), rest)
    elif os.path.lexists(path := os.path.join(folder, part)):
        yield from _match(path, rest)


def _folders(root: str) -> Iterator[str]:
    """A folder and all folders below it, without following links."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        yield folder
        below = [entry for entry in _listed(folder) if _is_folder(entry, False)]
        waiting += [os.path.join(folder, entry.name) for entry in reversed(below)]


def _listed(folder: str) -> list[os.DirEntry[str]]:
    """A folder's entries by name; none where it cannot be listed, as in a shell."""
    try:
        return _entries(folder)[0]
    except OSError:
        return []
