"""Figures as people read them."""

from __future__ import annotations

from hami_cache.absent import Absent
from hami_cache.model import Figure

SIGN = 1 << 63
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def human_bytes(value: Figure) -> str:
    """Bytes for people (``1.50 GiB``), signed where below zero; an absence says its reason."""
    if isinstance(value, Absent):
        return f"absent ({value.reason})"
    number = float(value if value < SIGN else value - 2 * SIGN)
    for unit in UNITS:
        if abs(number) < 1024 or unit == UNITS[-1]:
            return f"{int(number)} B" if unit == "B" else f"{number:.2f} {unit}"
        number /= 1024
    raise AssertionError("the last unit always returns")
