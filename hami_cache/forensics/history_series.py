"""A recording as series over time: one for every device of every cache."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hami_cache.forensics.history import Sample

NAN = math.nan
"""A gap: nothing was measured, or the figure could not be trusted."""


@dataclass(slots=True)
class Series:
    """One device of one cache. Its lists are of the same length; NAN where there is no figure.

    Attributes:
        name: of the cache.
        device: its index.
        times: seconds since 1970, the same list in all series of a recording.
        used, limit: bytes; no limit is a gap.
        util: percent.
    """

    name: str
    device: int
    times: list[float]
    used: list[float] = field(default_factory=list)
    limit: list[float] = field(default_factory=list)
    util: list[float] = field(default_factory=list)


def collect(samples: Iterable[Sample], group: int = 1) -> list[Series]:
    """The series of some samples, by name and device.

    Args:
        samples: in the order of time.
        group: how many of them become one point, which has the highest figures among them.
    """
    times: list[float] = []
    found: dict[tuple[str, int], Series] = {}
    for count, sample in enumerate(samples):
        if count % group == 0:
            times.append(sample.time)
        for name, document in sample.caches.items():
            for index, device in enumerate(_devices(document)):
                series = found.setdefault((name, index), Series(name, index, times))
                _raise_last(series.used, len(times), _figure(device, "used", "total"))
                _raise_last(series.limit, len(times), _figure(device, "limit") or NAN)
                _raise_last(series.util, len(times), _figure(device, "sm_util"))
    for series in found.values():
        for values in (series.used, series.limit, series.util):
            values.extend([NAN] * (len(times) - len(values)))
    return [found[key] for key in sorted(found)]


def _raise_last(values: list[float], length: int, value: float) -> None:
    """Make the last of so many points at least `value`; what is missing before it are gaps."""
    values.extend([NAN] * (length - len(values)))
    if math.isnan(values[-1]) or value > values[-1]:
        values[-1] = value


def _devices(document: Any) -> list[Any]:
    devices = document.get("devices")
    return devices if isinstance(devices, list) else []


def _figure(device: Any, *path: str) -> float:
    value = device
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return float(value) if isinstance(value, int) else NAN
