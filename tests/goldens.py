"""The golden caches: files that the real libvgpu wrote, and what a C program read back."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import pytest

DEFAULT = Path(__file__).resolve().parent / "data" / "goldens"

LAYOUTS = ("v0-legacy", "v0", "v1", "v1-seqlock", "v1-sem", "v1.2")
"""The layouts there are golden files of, oldest first."""

USED = ("context", "module", "data", "offset", "total")
UTIL = ("dec", "enc", "sm")


@dataclass(frozen=True)
class Golden:
    """One golden file: ``<layout>--<scenario>``."""

    name: str
    folder: Path

    @property
    def layout(self) -> str:
        return self.name.partition("--")[0]

    @property
    def scenario(self) -> str:
        return self.name.partition("--")[2]

    @property
    def parties(self) -> tuple[str, ...]:
        """The two layouts of a mixed file, the creator's first; else empty."""
        if not self.scenario.startswith("mixed-"):
            return ()
        return tuple(self.scenario.removeprefix("mixed-").removesuffix("-dead").split("-then-"))

    @property
    def blank(self) -> bool:
        """Its writer died before it had initialised the file."""
        return self.scenario.startswith(("empty", "partial"))

    @property
    def synthetic(self) -> bool:
        """No writer's work: every field has a value of its own."""
        return self.scenario == "allfields"

    @property
    def plain(self) -> bool:
        """One writer's finished work."""
        return not (self.parties or self.blank or self.synthetic)

    @property
    def data(self) -> bytes:
        return _content(self.folder / f"{self.name}.cache.gz")

    @cached_property
    def want(self) -> Any:
        """What the C program read, as its JSON says it."""
        return json.loads((self.folder / f"{self.name}.json").read_text())

    def views(self) -> dict[str, Any]:
        """What it read by layout: a mixed file was read with both."""
        return {self.layout: self.want, **self.want.get("other_views", {})}

    def write(self, folder: Path) -> Path:
        """The file itself, in `folder`."""
        path = folder / f"{self.name}.cache"
        path.write_bytes(self.data)
        return path


@lru_cache(maxsize=8)  # all of them together have 300 MB
def _content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def folder() -> Path:
    """Where the goldens lie: `HAMI_CACHE_GOLDENS`, else the copies in this repository."""
    return Path(os.environ.get("HAMI_CACHE_GOLDENS") or DEFAULT)


@cache
def goldens() -> tuple[Golden, ...]:
    """All of them, by name."""
    names = sorted(p.name.removesuffix(".cache.gz") for p in folder().glob("*.cache.gz"))
    return tuple(Golden(name, folder()) for name in names)


def golden(name: str) -> Golden:
    """The one of that name."""
    return next(g for g in goldens() if g.name == name)


def params(chosen: Callable[[Golden], object] = lambda _: True) -> list[Any]:
    """The chosen goldens as pytest parameters, each under its name."""
    return [pytest.param(g, id=g.name) for g in goldens() if chosen(g)]


def header(view: Any) -> dict[str, Any]:
    """A view's header as `inspect --json` gives it: what the layout lacks is null."""
    want = view["header"]
    names = (
        "initialized_flag", "major_version", "minor_version", "sm_init_flag", "owner_pid",
        "device_num", "uuids", "limit", "sm_limit", "proc_num", "utilization_switch",
        "recent_kernel", "priority", "last_kernel_time",
    )  # fmt: skip
    found = {name: want.get(name) for name in names}
    for name in ("sem", "sem_postinit"):
        raw = want.get(name)
        found[name] = raw and {key: raw[key] for key in ("value", "nwaiters", "private")}
    return found


def slots(view: Any) -> list[dict[str, Any]]:
    """A view's slots as `inspect --json` gives them; `counted` is worked out here once more."""
    return list(_slots(view))


def _slots(view: Any) -> Iterator[dict[str, Any]]:
    below = min(max(view["header"]["proc_num"], 0), 1024)
    devices = min(view["header"]["device_num"], 16)
    seen: set[int] = set()
    for raw in view["slots"]:
        rows = [raw["used"], raw["monitorused"], raw.get("device_util", [])]
        cover = max(devices, *(_last_with_anything(row) for row in rows))
        counted = raw["index"] < below and raw["status"] != 0 and raw["pid"] not in seen
        if counted and raw["pid"]:
            seen.add(raw["pid"])
        yield {
            "index": raw["index"],
            "pid": raw["pid"],
            "hostpid": raw["hostpid"],
            "status": raw["status"],
            "seqlock": raw.get("seqlock"),
            "used": _fill(raw["used"], cover, dict.fromkeys(USED, 0)),
            "monitorused": _fill(raw["monitorused"], cover, 0),
            "device_util": _fill(raw["device_util"], cover, dict.fromkeys(UTIL, 0))
            if "device_util" in raw
            else None,
            "counted": counted,
        }


def _last_with_anything(row: list[Any]) -> int:
    filled = [any(item.values()) if isinstance(item, dict) else bool(item) for item in row]
    return max((i + 1 for i, is_filled in enumerate(filled) if is_filled), default=0)


def _fill(row: list[Any], length: int, empty: Any) -> list[Any]:
    """The first `length` entries; what the JSON leaves out is zero."""
    return (row + [empty] * length)[:length]
