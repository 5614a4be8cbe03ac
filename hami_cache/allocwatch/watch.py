"""The watcher: list, reconcile, publish, again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from hami_cache.absent import Absent
from hami_cache.allocwatch.claims import GPU_RESOURCE, Claim, claims_of, on_cards, without_ended
from hami_cache.allocwatch.overrides import publish
from hami_cache.allocwatch.reconcile import Device, Policy, Reading, reconcile
from hami_cache.errors import HamiCacheError
from hami_cache.node.podresources import Allocation
from hami_cache.node.pods import NoPods, PodSource

DEFAULT_INTERVAL = 2.0
"""Seconds between polls. The simulated NVML looks at the file once a second."""

log = logging.getLogger(__name__)


class Watcher:
    """Keeps the override file at what the node's containers hold.

    It has no memory: each poll recomputes every device from the complete list, so a missed poll
    costs nothing.

    Args:
        list_allocations: the kubelet's list, usually `PodResources.list`.
        devices: the cards.
        policy: what a claim holds.
        overrides: the override file.
        resource: the name of the resource that counts.
        pods: where it shows that a pod has ended; without it the kubelet's word counts.
    """

    def __init__(
        self,
        list_allocations: Callable[[], Sequence[Allocation]],
        devices: Sequence[Device],
        policy: Policy,
        overrides: Path,
        *,
        resource: str = GPU_RESOURCE,
        pods: PodSource | None = None,
    ) -> None:
        self._list = list_allocations
        self._devices = devices
        self._policy = policy
        self._overrides = overrides
        self._resource = resource
        self._pods = pods or NoPods()
        self._reported: set[str] = set()

    def poll(self) -> list[Reading]:
        """List, reconcile and publish once.

        Returns:
            What was published; absent readings were not.

        Raises:
            HamiCacheError: the list, a measurement or the file failed; nothing was published.
        """
        listed = claims_of(self._list(), self._resource)
        claims = on_cards(without_ended(listed, self._pods.view()))
        readings = reconcile(self._devices, claims, self._policy)
        publish(self._overrides, readings)
        self._report(claims, readings)
        return readings

    def run(self, interval: float, stop: threading.Event) -> None:
        """Poll at once and then every `interval` seconds until `stop` is set.

        A failed poll is logged and publishes nothing, so the last reading stays: zeros would show
        the whole node idle whenever the kubelet restarts.
        """
        while True:
            try:
                self.poll()
            except HamiCacheError as error:
                log.warning("%s (keeping the previous readings)", error)
            if stop.wait(interval):
                return

    def _report(self, claims: Sequence[Claim], readings: Sequence[Reading]) -> None:
        """Say what the readings leave out, once for as long as it lasts."""
        notes = set()
        strangers = {claim.device for claim in claims} - {device.uuid for device in self._devices}
        if strangers:
            example = min(strangers)[:80]
            count = len(strangers)
            notes.add(f"{count} claimed cards are not in the profile, such as {example!r}")
        for reading in readings:
            if isinstance(reading.memory, Absent):
                reason = reading.memory.reason
                notes.add(f"device {reading.index} keeps its last reading: {reason}")
        for note in sorted(notes - self._reported):
            log.warning("%s", note)
        self._reported = notes
