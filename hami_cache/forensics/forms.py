"""The JSON shape of `doctor`, documented in docs/doctor.md and stable."""

from __future__ import annotations

from typing import Any

from hami_cache.forensics.anomalies import Diagnosis, Finding, ProcessState
from hami_cache.forensics.explain import EXPLANATIONS
from hami_cache.forensics.recover import RecoveredSlot, Recovery, balances
from hami_cache.model import MemoryUse
from hami_cache.read import jsonform


def diagnosis(found: Diagnosis) -> dict[str, Any]:
    """One file: a line of `doctor --json`. `recovered` is there for a mixed file only."""
    document: dict[str, Any] = {
        "file": found.file,
        "layout": found.layout,
        "verdict": found.verdict,
        "anomalies": [finding(f) for f in found.findings],
        "processes": [_process(p) for p in found.processes],
    }
    if found.recovered is not None:
        document["recovered"] = _recovery(found.recovered)
    return document


def unopened(file: str, error: str) -> dict[str, Any]:
    """The line of a file that could not be opened: nothing is known, so nothing is said of it."""
    return {
        "file": file,
        "layout": None,
        "verdict": "unknown",
        "anomalies": [],
        "processes": [],
        "error": error,
    }


def finding(found: Finding) -> dict[str, Any]:
    """One anomaly, with its place and what to do."""
    return {
        **jsonform.anomaly(found.anomaly),
        "offset": found.offset,
        "layout": found.layout,
        "advice": EXPLANATIONS[found.anomaly.kind].advice,
    }


def _process(state: ProcessState) -> dict[str, Any]:
    return {
        "layout": state.layout,
        "index": state.index,
        "pid": state.pid,
        "hostpid": state.hostpid,
        "liveness": state.liveness.state,
        "detail": state.liveness.detail,
    }


def _recovery(recovery: Recovery) -> dict[str, Any]:
    return {
        "slots": [_slot(slot) for slot in recovery.slots],
        "lost": [
            {"layout": lost.layout, "where": f"procs[{lost.index}]", "offset": lost.offset}
            for lost in recovery.lost
        ],
        "devices": [
            {
                "index": device.index,
                "uuid": jsonform.figure(device.uuid),
                "used": {"total": jsonform.figure(device.used)},
            }
            for device in recovery.devices
        ],
    }


def _slot(found: RecoveredSlot) -> dict[str, Any]:
    slot = found.slot
    return {
        "layout": found.layout.name,
        "where": f"procs[{slot.index}]",
        "offset": found.offset,
        "index": slot.index,
        "pid": slot.pid,
        "hostpid": slot.hostpid,
        "status": slot.status,
        "counted": slot.counted,
        "alone": found.alone,
        "used": [_use(use) for use in slot.used],
    }


def _use(use: MemoryUse) -> dict[str, Any]:
    if balances(use) is False:
        return {"absent": "sum_mismatch"}
    return {name: getattr(use, name) for name in ("context", "module", "data", "total")}
