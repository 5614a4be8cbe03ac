"""The figures of many containers as numpy arrays, filled by one native call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hami_cache.read.seqlock import (
    DEFAULT_BOUNDS,
    FIGURES,
    REPORT_FIELDS,
    Bounds,
    NativePass,
    Target,
)

REPORT: Final = np.dtype(list(REPORT_FIELDS), align=True)
"""One row per container beside the figures: what the pass found."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The answer of `read_figures`.

    Attributes:
        values: uint64, (containers, devices, len(FIGURES)); zero past a container's device_num.
        flags: uint32, (containers, devices): FLAG_... bits, saying what must not be published.
        reports: (containers,) of REPORT.
    """

    values: np.ndarray[Any, Any]
    flags: np.ndarray[Any, Any]
    reports: np.ndarray[Any, Any]


class FigurePlan:
    """A fixed set of containers, laid out once for many native calls.

    Args:
        targets: the containers, with open mappings; closing one later does not hurt the plan.
        devices: rows for each container; further devices are left out. None is as many as the
            largest layout has.
        out: a uint64 array (containers, devices, len(FIGURES)) to fill instead of a new one.

    Raises:
        ValueError: a mapping is closed, `out` has another shape or type, or a `skip` is too short.
        LayoutError: the native reader cannot use a layout.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        devices: int | None = None,
        out: np.ndarray[Any, Any] | None = None,
    ) -> None:
        self._pass = NativePass(targets, devices, out)
        shape = (len(targets), self._pass.devices, len(FIGURES))
        if out is None:
            out = np.frombuffer(self._pass.values, np.uint64).reshape(shape)  # type: ignore[call-overload]
        elif out.shape != shape or out.dtype != np.uint64 or not out.flags.carray:
            raise ValueError(f"out must be a plain uint64 array of shape {shape}")
        self.figures = Figures(
            out,
            np.frombuffer(self._pass.flags, np.uint32).reshape(shape[:2]),
            np.frombuffer(self._pass.reports, REPORT),
        )

    def read(self, bounds: Bounds = DEFAULT_BOUNDS) -> Figures:
        """One pass over all containers, into the same arrays every time."""
        self._pass.run(bounds)
        return self.figures
