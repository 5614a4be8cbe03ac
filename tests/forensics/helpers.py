"""What the tests of the forensics share: a diagnosis in one call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hami_cache.forensics.anomalies import Circumstances, Diagnosis, diagnose
from hami_cache.forensics.liveness import HostProcesses
from hami_cache.testing import CacheBuilder

AFTERWARDS = 1_800_000_000.0
"""A moment after all goldens and built files, in seconds since 1970."""


def kinds(found: Diagnosis) -> set[str]:
    """The kinds of a diagnosis."""
    return {finding.anomaly.kind for finding in found.findings}


def doctor(
    path: Path,
    *,
    now: float = AFTERWARDS,
    host: HostProcesses | None = None,
    layout: str | None = None,
) -> Diagnosis:
    """A diagnosis of a file at rest."""
    return diagnose(path, Circumstances(now, host), layout=layout, engine="numpy")


def built(folder: Path, builder: CacheBuilder) -> Diagnosis:
    """A diagnosis of what a builder describes."""
    return doctor(builder.write(folder / "x.cache"))


def where(found: Diagnosis, kind: str) -> Sequence[str]:
    """The places of one kind."""
    return [f.anomaly.where for f in found.findings if f.anomaly.kind == kind]


def detail(found: Diagnosis, kind: str) -> str:
    """What is said about the one finding of a kind."""
    (text,) = (f.anomaly.detail for f in found.findings if f.anomaly.kind == kind)
    return text
