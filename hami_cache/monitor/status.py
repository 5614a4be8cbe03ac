"""From the monitor's last pass to what the status page shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hami_cache.absent import Absent
from hami_cache.monitor.collector import NodeReading
from hami_cache.monitor.labels import Named
from hami_cache.monitor.statusview import (
    Condition,
    ContainerRow,
    DeviceRow,
    StatusView,
)

NEVER = Absent("never", "no kernel was launched yet, or the layout does not record it")


@dataclass(frozen=True, slots=True)
class About:
    """What does not change while the monitor runs."""

    node: str
    version: str
    links: Mapping[str, str]


def status_view(
    about: About,
    reading: NodeReading,
    *,
    root: str,
    uptime: float,
    conditions: Mapping[str, Condition],
) -> StatusView:
    """The page of one pass.

    Args:
        about: the fixed part.
        reading: the last pass.
        root: the directory of the containers, or where it was looked for.
        uptime: seconds.
        conditions: how the parts of the monitor do.
    """
    shown = {one.usage.state for one in reading.named}
    return StatusView(
        node=about.node,
        version=about.version,
        uptime=uptime,
        root=root,
        conditions=conditions,
        containers=[_row(one, reading.taken) for one in reading.named],
        hidden={state: n for state, n in reading.states.items() if state not in shown},
        links=about.links,
    )


def _row(one: Named, now: float) -> ContainerRow:
    usage = one.usage
    last = usage.last_kernel_time
    return ContainerRow(
        namespace=one.namespace,
        pod=one.pod,
        container=one.container,
        state=usage.state,
        layout=usage.layout,
        confidence=usage.confidence,
        devices=[
            DeviceRow(
                index=device.index,
                uuid=device.uuid,
                used=device.total,
                limit=device.limit,
                sm=device.sm_util,
                sm_limit=device.sm_limit,
            )
            for device in usage.devices
        ],
        last_kernel=NEVER if last is None else max(int(now) - last, 0),
        anomalies=dict(usage.anomalies.items()),
    )
