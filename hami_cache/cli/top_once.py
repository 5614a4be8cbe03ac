"""``hami-cache top --once``: one pass as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.measure import Measurement

from hami_cache.cli.tables import console, table
from hami_cache.cli.top_cells import COLUMNS, cells
from hami_cache.cli.top_reading import Line, Reading
from hami_cache.node.devicefigures import DeviceUsage
from hami_cache.read.jsonform import figure

WIDEST = 1000
"""Characters of a line that is not for a terminal."""


def print_table(reading: Reading, lines: Sequence[Line]) -> None:
    """For people."""
    out = console()
    rows = table("", *COLUMNS.values())
    rows.title = None
    for line in lines:
        rows.add_row(*cells(line))
    if not out.is_terminal:  # a line stays a line, for grep
        room = out.options.update(max_width=WIDEST)
        out.width = max(out.width, Measurement.get(out, room, rows).maximum)
    out.print(rows)
    for reason, count in sorted(reading.hidden.items()):
        out.print(f"{count} not shown: {reason}")


def print_json(root: Path | None, reading: Reading, lines: Sequence[Line]) -> None:
    """For machines: one object; its shape is in docs/top.md."""
    containers: dict[str, dict[str, Any]] = {}
    for line in lines:
        usage = line.named.usage
        made = containers.setdefault(f"{usage.key.pod_uid}/{usage.key.container}", _container(line))
        if line.device is not None:
            made["devices"].append(_device(line.device))
    document = {
        "root": None if root is None else str(root),
        "taken": reading.taken,
        "containers": list(containers.values()),
        "hidden": dict(reading.hidden),
    }
    print(json.dumps(document))


def _container(line: Line) -> dict[str, Any]:
    named, usage = line.named, line.named.usage
    return {
        "namespace": named.namespace,
        "pod": named.pod,
        "pod_uid": usage.key.pod_uid,
        "container": named.container,
        "state": usage.state,
        "layout": usage.layout or None,
        "confidence": usage.confidence if usage.layout else None,
        "last_kernel_time": usage.last_kernel_time,
        "priority": usage.priority,
        "recent_kernel": usage.recent_kernel,
        "utilization_switch": usage.utilization_switch,
        "processes": dict(usage.processes),
        "devices": [],
        "anomalies": [
            {"kind": kind, "detail": detail} for kind, detail in sorted(usage.anomalies.items())
        ],
    }


def _device(card: DeviceUsage) -> dict[str, Any]:
    return {
        "index": card.index,
        "uuid": card.uuid,
        "limit": card.limit,
        "sm_limit": card.sm_limit,
        "used": {
            "context": figure(card.context),
            "module": figure(card.module),
            "data": figure(card.data),
            "total": figure(card.total),
        },
        "sm_util": figure(card.sm_util),
    }
