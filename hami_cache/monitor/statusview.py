"""What the status page shows, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hami_cache.model import Figure

Health = Literal["ok", "bad", "off"]


@dataclass(frozen=True, slots=True)
class Condition:
    """How one part of the monitor does.

    Attributes:
        health: ``ok``, ``bad`` (somebody should look) or ``off`` (not wanted).
        detail: a few words, such as where pods come from, or why NVML is down.
    """

    health: Health
    detail: str = ""


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One card of a container.

    Attributes:
        index: the container's own number of the card.
        used: bytes.
        limit: bytes; 0 where no limit is set.
        sm: percent of the card's multiprocessors.
        sm_limit: percent; 0 and 100 limit nothing.
    """

    index: int
    uuid: str
    used: Figure
    limit: Figure
    sm: Figure
    sm_limit: Figure


@dataclass(frozen=True, slots=True)
class ContainerRow:
    """One container.

    Attributes:
        state: ``ready``, ``empty``, or why its cache cannot be read.
        layout: the name of its cache's layout, "" where none is known.
        confidence: of the layout, 0..1.
        last_kernel: seconds since the last kernel started.
        anomalies: kind to detail.
    """

    namespace: str
    pod: str
    container: str
    state: str
    layout: str
    confidence: float
    devices: Sequence[DeviceRow]
    last_kernel: Figure
    anomalies: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatusView:
    """Everything on the page.

    Attributes:
        uptime: seconds.
        root: the directory of the containers.
        conditions: what the monitor depends on and does, by name: pods, NVML, feedback, gc.
        containers: those that are exported.
        hidden: how many directories are not exported, by reason.
        links: further pages, path to text.
    """

    node: str
    version: str
    uptime: float
    root: str
    conditions: Mapping[str, Condition]
    containers: Sequence[ContainerRow]
    hidden: Mapping[str, int] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
