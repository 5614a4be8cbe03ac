"""The JSON shape of `inspect`, documented in docs/json.md and stable."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from hami_cache.absent import Absent
from hami_cache.model import Anomaly, Device, Figure, MemoryUse, Slot, Snapshot
from hami_cache.read.look import refusal
from hami_cache.read.signs import refused
from hami_cache.spec.identify import Identification


def identification(found: Identification, file: str, size: int) -> dict[str, Any]:
    """What `identify --json` prints, and the first half of `inspect --json`."""
    return {
        "file": file,
        "size": size,
        "layout": found.layout.name if found.layout else None,
        "confidence": found.confidence,
        "verdict": found.verdict,
        "candidates": [
            {
                "layout": c.layout,
                "score": c.score,
                "evidence": [
                    {"kind": e.kind, "supports": e.supports, "detail": e.detail} for e in c.evidence
                ],
            }
            for c in found.candidates
        ],
    }


def unread(found: Identification, file: str, size: int) -> dict[str, Any]:
    """`inspect --json` of a file that cannot be read: everything below the verdict is empty."""
    return {
        **identification(found, file, size),
        "header": None,
        "slots": [],
        "devices": [],
        "anomalies": [anomaly(refused(refusal(found)))],
    }


def inspection(found: Identification, snapshot: Snapshot, file: str, size: int) -> dict[str, Any]:
    """What `inspect --json` prints of a readable file."""
    return {
        **identification(found, file, size),
        "layout": snapshot.layout,
        "header": asdict(snapshot.header),
        "slots": [_slot(slot) for slot in snapshot.slots],
        "devices": [_device(device) for device in snapshot.devices],
        "anomalies": [anomaly(a) for a in snapshot.anomalies],
    }


def anomaly(found: Anomaly) -> dict[str, str]:
    """One anomaly."""
    return {
        "kind": found.kind,
        "severity": found.severity,
        "where": found.where,
        "detail": found.detail,
    }


def figure(value: Figure | str) -> Any:
    """A figure, or ``{"absent": reason}``."""
    return {"absent": value.reason} if isinstance(value, Absent) else value


def _memory(use: MemoryUse) -> dict[str, Any]:
    return {
        name: figure(getattr(use, name))
        for name in ("context", "module", "data", "offset", "total")
    }


def _slot(slot: Slot) -> dict[str, Any]:
    util = slot.device_util
    return {
        "index": slot.index,
        "pid": slot.pid,
        "hostpid": slot.hostpid,
        "status": slot.status,
        "seqlock": slot.seqlock,
        "used": [_memory(use) for use in slot.used],
        "monitorused": None if slot.monitorused is None else list(slot.monitorused),
        "device_util": None if util is None else [asdict(u) for u in util],
        "counted": slot.counted,
        "consistent": slot.consistent,
    }


def _device(device: Device) -> dict[str, Any]:
    return {
        "index": device.index,
        "uuid": figure(device.uuid),
        "limit": device.limit,
        "sm_limit": device.sm_limit,
        "used": _memory(device.used),
        "sm_util": figure(device.sm_util),
    }
