"""``hami-cache top``: the process slots of one container, read in full."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from hami_cache.cli.tables import SEVERITY_STYLE, safe
from hami_cache.cli.top_cells import SLOT_COLUMNS, pod_of, slot_cells
from hami_cache.cli.top_pace import Pace
from hami_cache.cli.top_reading import CacheDetail, Details, NodeWatch
from hami_cache.cli.top_table import KeyedTable
from hami_cache.monitor.labels import Named

MAX_SLOTS = 500
MAX_ANOMALIES = 100
"""Slots and anomalies that are shown: a tenant can make thousands."""


class SlotsScreen(Screen[None]):
    """One container's caches: what each is read as, its slots, and what is wrong with it.

    Args:
        watch: reads them.
        pace: when.
        named: the container.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "app.pop_screen", "back"),
    ]
    CSS = """
    SlotsScreen Static { width: 100%; padding: 0 1; }
    SlotsScreen #caches { text-style: bold; max-height: 10; }
    SlotsScreen KeyedTable { height: 3fr; }
    SlotsScreen VerticalScroll { height: 1fr; min-height: 5; border-top: solid $panel; }
    """

    def __init__(self, watch: NodeWatch, pace: Pace, named: Named) -> None:
        super().__init__()
        self._watch = watch
        self._pace = pace
        self._named = named
        self._caches = Static(id="caches")
        self._slots = KeyedTable(SLOT_COLUMNS)
        self._anomalies = Static(id="anomalies")

    def compose(self) -> ComposeResult:
        """The widgets."""
        yield self._caches
        yield self._slots
        with VerticalScroll(can_focus=False):
            yield self._anomalies
        yield Footer()

    def on_mount(self) -> None:
        """Read, again and again."""
        self._slots.focus()
        key = self._named.usage.key
        take = partial(self._watch.details, key)
        self.run_worker(self._pace.follow(take, self._show, self._fail))

    def _fail(self, problem: str) -> None:
        self._anomalies.update(Text("it cannot be read: ", "bold red").append_text(safe(problem)))

    def _show(self, details: Details | None) -> None:
        """Show what was read; None where the container is gone."""
        caches = () if details is None else details.caches
        head = Text(no_wrap=True, overflow="ellipsis")
        head.append_text(safe(f"{pod_of(self._named)} {self._named.container}"))
        if not caches:
            head.append("\nthe container is gone" if details is None else "\nno cache file yet")
        for cache in caches:
            head.append("\n").append_text(_summary(cache))
        self._caches.update(head)
        rows = {
            f"{cache.name}/{slot.index}": slot_cells(cache, slot)
            for cache in caches
            if cache.snapshot is not None
            for slot in cache.snapshot.slots
        }
        self._slots.show(dict(list(rows.items())[:MAX_SLOTS]))
        anomalies = [] if details is None else list(_anomalies(details))
        shown = anomalies[:MAX_ANOMALIES] or [Text("no anomalies", "dim")]
        if len(anomalies) > MAX_ANOMALIES:
            shown.append(Text(f"and {len(anomalies) - MAX_ANOMALIES} more", "dim"))
        self._anomalies.update(Text("\n").join(shown))


def _summary(cache: CacheDetail) -> Text:
    line = safe(cache.name)
    if cache.snapshot is None or cache.identification is None:
        return line.append(f": {cache.state}: ", "bold red").append_text(safe(cache.detail))
    header, found = cache.snapshot.header, cache.identification
    return line.append(
        f": {cache.snapshot.layout}, {found.verdict}, {found.confidence:.0%} sure; "
        f"{len(cache.snapshot.slots)} slots, priority {header.priority}, "
        f"recent kernel {header.recent_kernel}, "
        f"utilization switch {header.utilization_switch}"
    )


def _anomalies(details: Details) -> Iterator[Text]:
    """What the files show, then what only the pass over the node knows."""
    shown = [a for c in details.caches if c.snapshot is not None for a in c.snapshot.anomalies]
    for anomaly in shown:
        line = Text().append(f"{anomaly.severity:<9}", SEVERITY_STYLE[anomaly.severity])
        line.append(f"{anomaly.kind} ", "bold").append(f"{anomaly.where} " if anomaly.where else "")
        yield line.append_text(safe(anomaly.detail))
    for kind in sorted(set(details.anomalies) - {anomaly.kind for anomaly in shown}):
        line = Text().append(f"{'node':<9}", "dim").append(f"{kind} ", "bold")
        yield line.append_text(safe(details.anomalies[kind]))
