"""What a support bundle says of containers and caches: by number, unless more is asked for.

What is not tenants' data is picked out here, field by field: what is new elsewhere stays out until
somebody has thought about it. Free text is never picked: details quote pids, uuids and raw bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hami_cache.errors import HamiCacheError
from hami_cache.forensics import forms
from hami_cache.forensics.anomalies import Circumstances, Diagnosis, diagnose
from hami_cache.node.containers import Container
from hami_cache.node.usage import ContainerUsage
from hami_cache.read import jsonform
from hami_cache.read.look import identify
from hami_cache.read.source import read_all
from hami_cache.spec.identify import Identification

MAX_CACHES = 100
"""Cache files looked into; each may take a moment, and more would say the same again."""

MAX_FINDINGS = 200
"""Anomalies and processes listed of one file."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CacheFile:
    """A file to look into.

    Attributes:
        path: where it lies.
        container: the number of its container, None for a file by itself.
        state: as a pass over the node saw it, "" for a file by itself.
    """

    path: Path
    container: int | None = None
    state: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """How to look, and how much to say.

    Attributes:
        tenants: with names, uuids, pids and details.
        circumstances: the time, and the host's processes.
        layouts: a folder of layout files.
    """

    tenants: bool
    circumstances: Circumstances
    layouts: Path | None = None


def files_of(containers: Iterable[Container]) -> Iterator[CacheFile]:
    """Every cache file of a node, its containers numbered from 1."""
    for number, container in enumerate(containers, 1):
        for tracked in container.caches.values():
            yield CacheFile(container.path / tracked.name, number, tracked.state)


def container_forms(usages: Sequence[ContainerUsage], scope: Scope) -> list[Document]:
    """Every container, as a pass over the node read it."""
    return [
        {
            "container": number,
            "state": usage.state,
            "layout": usage.layout or None,
            "header_version": usage.header_version or None,
            "confidence": usage.confidence,
            "devices": len(usage.devices),
            "processes": dict(usage.processes),
            "retries": usage.retries,
            "torn": usage.torn,
            "anomalies": sorted(usage.anomalies),
            **(_named(usage) if scope.tenants else {}),
        }
        for number, usage in enumerate(usages, 1)
    ]


def cache_forms(files: Sequence[CacheFile], scope: Scope) -> Document:
    """Every cache file: what it was taken for, and what `doctor` finds."""
    looked = files[:MAX_CACHES]
    return {
        "files": [_file(number, file, scope) for number, file in enumerate(looked, 1)],
        "left_out": len(files) - len(looked),
    }


def _named(usage: ContainerUsage) -> Document:
    return {
        "pod_uid": usage.key.pod_uid,
        "name": usage.key.container,
        "details": dict(usage.anomalies),
        "uuids": [device.uuid for device in usage.devices],
    }


def _file(number: int, file: CacheFile, scope: Scope) -> Document:
    form: Document = {"file": number, "container": file.container, "state": file.state or None}
    if scope.tenants:
        form["path"] = str(file.path)
    try:
        content = read_all(file.path)
        found = identify(content, layouts=scope.layouts)
        diagnosis = diagnose(file.path, scope.circumstances, layouts=scope.layouts)
    except HamiCacheError as error:
        form["error"] = str(error) if scope.tenants else type(error).__name__
        return form
    form["size"] = len(content)
    return form | _identification(found, scope) | _diagnosis(diagnosis, scope)


def _identification(found: Identification, scope: Scope) -> Document:
    return {
        "layout": None if found.layout is None else found.layout.name,
        "verdict": found.verdict,
        "confidence": found.confidence,
        "candidates": [
            {
                "layout": candidate.layout,
                "score": candidate.score,
                "evidence": [
                    {"kind": evidence.kind, "supports": evidence.supports}
                    | ({"detail": evidence.detail} if scope.tenants else {})
                    for evidence in candidate.evidence
                ],
            }
            for candidate in found.candidates
        ],
    }


def _diagnosis(found: Diagnosis, scope: Scope) -> Document:
    findings = found.findings[:MAX_FINDINGS]
    form: Document = {
        "anomalies": [
            {
                "kind": finding.anomaly.kind,
                "severity": finding.anomaly.severity,
                "where": finding.anomaly.where,
                "offset": finding.offset,
                "layout": finding.layout,
            }
            for finding in findings
        ],
        "anomalies_left_out": len(found.findings) - len(findings),
        "processes": dict(Counter(process.liveness.state for process in found.processes)),
    }
    if found.recovered is not None:
        recovered = found.recovered
        form["recovered"] = {"slots": len(recovered.slots), "lost": len(recovered.lost)}
    if scope.tenants:
        form["details"] = [jsonform.anomaly(finding.anomaly)["detail"] for finding in findings]
        form["pids"] = forms.diagnosis(found)["processes"][:MAX_FINDINGS]
    return form
