"""Diagnoses as SARIF 2.1.0, the format that code-scanning tools read.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/sarif-v2.1.0-os.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hami_cache.forensics.anomalies import Diagnosis, Finding
from hami_cache.forensics.explain import EXPLANATIONS
from hami_cache.model import ANOMALY_KINDS, Severity

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
LEVELS: dict[Severity, str] = {"info": "note", "warning": "warning", "error": "error"}
_RULE_INDEX = {kind: index for index, kind in enumerate(ANOMALY_KINDS)}


def log(
    found: Sequence[Diagnosis], unopened: Sequence[tuple[str, str]], version: str
) -> dict[str, Any]:
    """A SARIF log of one run.

    Args:
        found: a diagnosis for every file that could be opened.
        unopened: (file, error) for every other.
        version: of this tool.
    """
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(version)},
                "invocations": [_invocation(unopened)],
                "artifacts": [{"location": {"uri": _uri(one.file)}} for one in found],
                "results": [
                    _result(one, finding, index)
                    for index, one in enumerate(found)
                    for finding in one.findings
                ],
                "columnKind": "unicodeCodePoints",
            }
        ],
    }


def _driver(version: str) -> dict[str, Any]:
    return {
        "name": "hami-cache",
        "version": version,
        "rules": [
            {
                "id": kind,
                "shortDescription": {"text": EXPLANATIONS[kind].meaning},
                "help": {"text": EXPLANATIONS[kind].advice},
            }
            for kind in ANOMALY_KINDS
        ],
    }


def _invocation(unopened: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "executionSuccessful": not unopened,
        "toolExecutionNotifications": [
            {
                "level": "error",
                "message": {"text": error},
                "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(file)}}}],
            }
            for file, error in unopened
        ],
    }


def _result(diagnosis: Diagnosis, finding: Finding, artifact: int) -> dict[str, Any]:
    anomaly = finding.anomaly
    physical: dict[str, Any] = {
        "artifactLocation": {"uri": _uri(diagnosis.file), "index": artifact}
    }
    if finding.offset is not None:
        physical["region"] = {"byteOffset": finding.offset}
    location: dict[str, Any] = {"physicalLocation": physical}
    if anomaly.where:
        name = {"fullyQualifiedName": anomaly.where, "kind": "member"}
        location["logicalLocations"] = [name]
    return {
        "ruleId": anomaly.kind,
        "ruleIndex": _RULE_INDEX[anomaly.kind],
        "level": LEVELS[anomaly.severity],
        "message": {"text": f"{anomaly.where}: {anomaly.detail}".removeprefix(": ")},
        "locations": [location],
        "partialFingerprints": {"place/v1": _fingerprint(diagnosis.file, finding)},
    }


def _fingerprint(file: str, finding: Finding) -> str:
    """The same for the same finding of a later run, whatever the figures are by then."""
    parts = (Path(file).name, finding.anomaly.kind, finding.anomaly.where)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _uri(file: str) -> str:
    """A relative reference for a relative path, a file URI for an absolute one."""
    quoted = quote(file.encode("utf-8", "surrogateescape"))
    if file.startswith("/"):
        return f"file://{quoted}"
    # A first segment with a colon would read as a scheme.
    return f"./{quoted}" if ":" in file.partition("/")[0] else quoted
