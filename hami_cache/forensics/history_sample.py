"""One cache at one moment as a recording keeps it: an object of figures, small and bounded."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hami_cache.model import Device, Slot, Snapshot
from hami_cache.read import jsonform
from hami_cache.spec.identify import Identification

MAX_SLOTS = 64
"""Process slots of one cache that are kept, the counted ones first; the rest is a number."""

Document = dict[str, Any]


def readable(found: Identification, snapshot: Snapshot) -> Document:
    """A cache that could be read.

    Args:
        found: what it was taken for.
        snapshot: the reading.
    """
    header = snapshot.header
    slots = sorted(snapshot.slots, key=lambda slot: (not slot.counted, slot.index))
    return {
        "state": "ready",
        "layout": snapshot.layout,
        "verdict": found.verdict,
        "confidence": found.confidence,
        "priority": header.priority,
        "recent_kernel": header.recent_kernel,
        "utilization_switch": header.utilization_switch,
        "last_kernel_time": header.last_kernel_time,
        "processes": sum(slot.counted for slot in slots),
        "devices": [_device(device) for device in snapshot.devices],
        "slots": [_slot(slot) for slot in slots[:MAX_SLOTS]],
        "slots_left_out": max(len(slots) - MAX_SLOTS, 0),
        "anomalies": dict(sorted(Counter(a.kind for a in snapshot.anomalies).items())),
    }


def unreadable(state: str, detail: str) -> Document:
    """A cache without figures, and why."""
    return {"state": state, "detail": detail}


def _device(device: Device) -> Document:
    parts = ("total", "context", "module", "data")
    return {
        "uuid": jsonform.figure(device.uuid),
        "limit": device.limit,
        "sm_limit": device.sm_limit,
        "used": {part: jsonform.figure(getattr(device.used, part)) for part in parts},
        "sm_util": jsonform.figure(device.sm_util),
    }


def _slot(slot: Slot) -> Document:
    util = slot.device_util
    return {
        "index": slot.index,
        "pid": slot.pid,
        "hostpid": slot.hostpid,
        "status": slot.status,
        "counted": slot.counted,
        "consistent": slot.consistent,
        "used": [jsonform.figure(use.total) for use in slot.used],
        "sm_util": None if util is None else [device.sm for device in util],
    }
