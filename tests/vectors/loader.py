"""Vectors from the real programs: one file, many cases, run one by one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

DEFAULT = Path(__file__).resolve().parent.parent / "data" / "vectors"


def directory() -> Path:
    """Where the vectors lie: `HAMI_CACHE_VECTORS`, else the copies in this repository."""
    return Path(os.environ.get("HAMI_CACHE_VECTORS") or DEFAULT)


def cases(name: str) -> list[Any]:
    """The cases of ``<name>.json`` as pytest parameters, each under its own name."""
    document = json.loads((directory() / f"{name}.json").read_text())
    return [pytest.param(case, id=case["name"]) for case in document["cases"]]
