"""The override file: readings go in, everything else in it survives.

The file belongs to several programs (nvml-mock-ctl, a person's edits through it, this watcher), so
the protocol is theirs: an exclusive `flock` on ``<file>.lock`` around reading, merging and writing,
a temporary file in the same directory, and a rename. Whoever reads the file, and whenever a writer
is killed, it is whole.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hami_cache.absent import Absent
from hami_cache.allocwatch.goyaml import Json, dump, load
from hami_cache.allocwatch.goyaml.scalars import INT_MAX, INT_MIN
from hami_cache.allocwatch.goyaml.typed import as_map, as_whole, members
from hami_cache.allocwatch.reconcile import Reading
from hami_cache.errors import ConfigError, SourceError
from hami_cache.read.source import read_all


@dataclass(slots=True)
class Overrides:
    """An override document.

    Attributes:
        version: the schema's version; 0 when the file gives none.
        everywhere: the member `all`: what holds for every device.
        devices: what holds for one device, by its decimal index as text.
    """

    version: int = 0
    everywhere: dict[str, Json] = field(default_factory=dict)
    devices: dict[str, dict[str, Json] | None] = field(default_factory=dict)


def publish(path: Path, readings: Iterable[Reading]) -> None:
    """Merge readings into the override file, under its lock, replacing it in one step.

    Only `memory.used_bytes` and `memory.free_bytes` of the devices read are touched; absent
    readings are passed over, so what stood there stays. Waits for the lock as long as another
    writer holds it.

    Raises:
        ConfigError: the file is not an override document; it is left as it was.
        SourceError: the file or its directory cannot be read or written.
    """
    with _locked(path):
        _replace(path, render(merged(_read(path), readings)))


def parse(text: bytes) -> Overrides:
    """Read a document strictly: unknown members, members given twice and wrong types are errors.

    Raises:
        ConfigError: it is not an override document.
    """
    result = Overrides()
    if not text.strip():
        return result
    for name, value in members(load(text, strict=True), "the document"):
        if name == "version":
            result.version = as_whole(value, INT_MIN, INT_MAX, name)
        elif name == "all":
            result.everywhere |= as_map(value, name)
        elif name == "devices":
            for index, device in as_map(value, name).items():
                where = f"devices.{index}"
                result.devices[index] = None if device is None else as_map(device, where)
        else:
            raise ConfigError("unknown member", field=name, hint="known are version, all, devices")
    return result


def merged(document: Overrides, readings: Iterable[Reading]) -> Overrides:
    """The document with the readings in it. The document itself is not changed."""
    devices = dict(document.devices)
    for reading in readings:
        if isinstance(reading.memory, Absent):
            continue
        index = str(reading.index)
        device = devices.get(index) or {}
        old = device.get("memory")
        new = {"used_bytes": reading.memory.used_bytes, "free_bytes": reading.memory.free_bytes}
        devices[index] = {**device, "memory": {**(old if isinstance(old, dict) else {}), **new}}
    return Overrides(document.version, document.everywhere, devices)


def render(document: Overrides) -> bytes:
    """The document as the file's text; without a version it gets 1, empty members are left out."""
    content: dict[str, Json] = {"version": document.version or 1}
    if document.everywhere:
        content["all"] = document.everywhere
    if document.devices:
        content["devices"] = dict(document.devices)
    return dump(content).encode()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of all the file's writers: flock(2), which fcntl locks do not exclude."""
    name = f"{path}.lock"
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = os.fdopen(os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "rb+")
    except OSError as error:
        raise SourceError(f"cannot open the lock: {error.strerror}", path=name) from None
    with lock:  # the file itself stays, or two writers could hold locks of the same name
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            raise SourceError(f"cannot lock: {error.strerror}", path=name) from None
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)


def _read(path: Path) -> Overrides:
    if not path.exists():
        return Overrides()
    text = read_all(path, follow=True)
    try:
        return parse(text)
    except ConfigError as error:
        error.path = str(path)
        raise


def _replace(path: Path, content: bytes) -> None:
    try:
        fd, temporary = tempfile.mkstemp(".tmp", ".overrides-", path.parent)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o644)  # containers of other users read it
            os.rename(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise SourceError(f"cannot write: {error.strerror}", path=path) from None
