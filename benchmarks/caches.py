"""The files that all peers read: one cache for each case, and a node of a hundred."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hami_cache.testing import CacheBuilder

LAYOUT = "v1.2"
CASES = ((1, 1), (8, 8), (8, 64), (16, 1024))
"""(devices, live slots) of one container."""

CONTAINERS = 100


@dataclass(frozen=True, slots=True)
class Case:
    """One cache file."""

    path: Path
    devices: int
    slots: int

    @property
    def name(self) -> str:
        """``D8P64``."""
        return f"D{self.devices}P{self.slots}"


def build(folder: Path, devices: int, slots: int, name: str = "") -> Case:
    """Write a cache with every figure different, so that a wrong offset shows."""
    builder = CacheBuilder(LAYOUT)
    for _ in range(devices):
        builder.device()
    for slot in range(slots):
        memory = [(1 << 20) + 4096 * slot + device for device in range(devices)]
        builder.process(100 + slot, memory=memory, sm_util=[slot % 7] * devices)
    case = Case(folder / f"{name or f'D{devices}P{slots}'}.cache", devices, slots)
    builder.write(case.path)
    return case
