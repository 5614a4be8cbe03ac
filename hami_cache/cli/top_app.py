"""``hami-cache top``: the live view."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static

from hami_cache.cli.tables import safe
from hami_cache.cli.top_cells import COLUMNS, cells
from hami_cache.cli.top_order import ORDERS, select, sort
from hami_cache.cli.top_pace import Pace
from hami_cache.cli.top_reading import Line, NodeWatch, Reading
from hami_cache.cli.top_slots import SlotsScreen
from hami_cache.cli.top_table import KeyedTable

MAX_LINES = 500
"""Lines shown: more cannot be looked through, and drawing them would be slow."""


class TopApp(App[None]):
    """The node's containers, read again every few seconds.

    Args:
        watch: takes the passes.
        interval: seconds between them.
        order: the column to sort by.
        wanted: words that a line must have to be shown.
    """

    ENABLE_COMMAND_PALETTE = False
    TITLE = "hami-cache top"
    CSS = """
    #summary { width: 100%; height: 2; padding: 0 1; background: $panel; }
    #filter { display: none; }
    #filter.asked { display: block; }
    KeyedTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True),
        Binding("s", "sort", "next sort"),
        Binding("r", "turn", "reverse"),
        Binding("slash", "filter", "filter"),
        Binding("p", "pause", "pause"),
        Binding("space", "now", "read now"),
        Binding("escape", "show_all", "show all", show=False),
    ]

    def __init__(
        self, watch: NodeWatch, interval: float, *, order: str = "pod", wanted: str = ""
    ) -> None:
        super().__init__()
        self._watch = watch
        self._pace = Pace(interval)
        self._order = order
        self._turned = False
        self._wanted = wanted
        self._reading: Reading | None = None
        self._problem = ""
        self._shown: dict[str, Line] = {}
        self._summary = Static(id="summary")
        self._filter = Input(
            placeholder="words: pod, container, layout, card, state, anomaly", id="filter"
        )
        self._filter.set_class(bool(wanted), "asked")
        self._table = KeyedTable(COLUMNS)

    def compose(self) -> ComposeResult:
        """The widgets."""
        yield self._summary
        yield self._filter
        yield self._table
        yield Footer()

    def on_mount(self) -> None:
        """Read, again and again; leave the terminal in order whoever ends us."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(ValueError, NotImplementedError):
                loop.add_signal_handler(number, self.exit)
        self._filter.value = self._wanted
        self._table.focus()
        self._draw()
        self.run_worker(self._pace.follow(self._watch.take, self._show, self._fail))

    def _show(self, reading: Reading) -> None:
        self._reading, self._problem = reading, ""
        self._draw()

    def _fail(self, problem: str) -> None:
        self._problem = problem
        self._draw()

    def _draw(self, *, afresh: bool = False) -> None:
        lines = () if self._reading is None else self._reading.lines
        selected = sort(select(lines, self._wanted), self._order, turned=self._turned)
        self._shown = {line.key: line for line in selected[:MAX_LINES]}
        rows = {key: cells(line) for key, line in self._shown.items()}
        self._table.show(rows, afresh=afresh)
        self._summary.update(self._status(selected))

    def _status(self, selected: Sequence[Line]) -> Text:
        text = Text("hami-cache top  ", "bold", no_wrap=True, overflow="ellipsis")
        falling = ORDERS[self._order].descending is not self._turned
        text.append(f"by {self._order} {'▼' if falling else '▲'}  ")
        if self._pace.paused:
            text.append("PAUSED", "bold reverse yellow").append("  ")
        text.append_text(safe(str(self._watch.root or self._watch.hook_path))).append("\n")
        if self._problem:
            text.append("the pass failed: ", "bold red").append_text(safe(self._problem))
        elif self._reading is None:
            text.append("reading ...", "dim")
        else:
            text.append(_counts(self._reading, selected))
        return text

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Sorting and filtering are for the lines, not for what was opened from them."""
        own = action in ("sort", "turn", "filter", "show_all")
        return not own or len(self.screen_stack) == 1

    def action_sort(self) -> None:
        """Sort by the next column."""
        names = list(ORDERS)
        self._sort_by(names[(names.index(self._order) + 1) % len(names)])

    def action_turn(self) -> None:
        """Sort the other way round."""
        self._turned = not self._turned
        self._draw(afresh=True)

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column that was clicked, or turn it round."""
        if event.data_table is self._table:
            name = str(event.column_key.value)
            if name == self._order:
                self.action_turn()
            else:
                self._sort_by(name)

    def _sort_by(self, name: str) -> None:
        self._order, self._turned = name, False
        self._draw(afresh=True)

    def action_filter(self) -> None:
        """Ask which lines to show."""
        self._filter.add_class("asked")
        self._filter.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow the lines while somebody types."""
        self._wanted = event.value
        self._draw()

    def on_input_submitted(self) -> None:
        """Go back to the lines."""
        self._filter.set_class(bool(self._wanted), "asked")
        self._table.focus()

    def action_show_all(self) -> None:
        """Show every line again."""
        self._filter.value = ""
        self._filter.remove_class("asked")
        self._table.focus()

    def action_pause(self) -> None:
        """Take no passes, or take them again."""
        self._pace.paused = not self._pace.paused
        if self._pace.paused:
            self.notify("paused; space reads once", timeout=2)
        else:
            self._pace.now()
        self._draw()

    def action_now(self) -> None:
        """Take one pass at once, also while paused."""
        self._pace.now()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show the slots of the container."""
        if event.data_table is self._table and (line := self._shown.get(str(event.row_key.value))):
            self.push_screen(SlotsScreen(self._watch, self._pace, line.named))


def _counts(reading: Reading, selected: Sequence[Line]) -> str:
    containers = {line.named.usage.key: line for line in reading.lines}
    troubled = sum(line.troubled for line in containers.values())
    parts = [f"{len(containers)} containers, {troubled} to look at"]
    if len(selected) < len(reading.lines):
        parts.append(f"{len(selected)} of {len(reading.lines)} lines match")
    if len(selected) > MAX_LINES:
        parts.append(f"the first {MAX_LINES} are shown")
    parts += [f"{count} not shown: {reason}" for reason, count in sorted(reading.hidden.items())]
    when = time.strftime("%H:%M:%S", time.localtime(reading.taken))
    return "  ·  ".join([*parts, f"read at {when} in {reading.seconds * 1000:.0f} ms"])
