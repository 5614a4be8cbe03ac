"""Where the C sources of the test doubles lie: in a wheel, or in a checkout."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent


def source(name: str) -> Path:
    """The path of ``native/testing/<name>``, whether or not it is there."""
    packed = _HERE / "_c" / name
    return packed if packed.exists() else _HERE.parents[1] / "native" / "testing" / name
