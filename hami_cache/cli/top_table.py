"""A table whose rows have keys: what is under the cursor stays there from pass to pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text
from textual.widgets import DataTable


class KeyedTable(DataTable[Text]):
    """Shows rows by key, and redraws only what changed.

    Args:
        columns: title by name.
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        super().__init__(cursor_type="row", zebra_stripes=True, fixed_columns=1)
        self._titles = columns

    def show(self, rows: Mapping[str, Sequence[Text]], *, afresh: bool = False) -> None:
        """Show these rows instead, in this order.

        Args:
            rows: cells by key.
            afresh: begin at the top, instead of staying with the row under the cursor.
        """
        if not self.columns:
            for name, title in self._titles.items():
                self.add_column(Text(title), width=len(title), key=name)
        self._widen(rows.values())
        if not afresh and list(rows) == [key.value for key in self.rows]:
            for key, cells in rows.items():
                for column, before, now in zip(self._titles, self.get_row(key), cells, strict=True):
                    if before != now:
                        self.update_cell(key, column, now, update_width=True)
        else:
            self._replace(rows, afresh)

    def _widen(self, rows: Iterable[Sequence[Text]]) -> None:
        """Give each column room for its cells; it keeps it, so that the picture is at rest.

        Left to itself, the table measures after it may have drawn, and keeps what it has drawn.
        """
        for column, cells in zip(self.ordered_columns, zip(*rows, strict=True), strict=False):
            column.width = max([column.width, *(cell.cell_len for cell in cells)])

    @property
    def chosen(self) -> str | None:
        """The key of the row under the cursor."""
        if not self.is_valid_row_index(self.cursor_row):
            return None
        return self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value

    def _replace(self, rows: Mapping[str, Sequence[Text]], afresh: bool) -> None:
        chosen, place = self.chosen, self.scroll_offset
        self.clear()
        for key, cells in rows.items():
            self.add_row(*cells, key=key)
        if chosen is not None and chosen in rows and not afresh:
            self.move_cursor(row=self.get_row_index(chosen), scroll=False)
        y = 0 if afresh else place.y
        self.call_after_refresh(self.scroll_to, place.x, y, animate=False)
