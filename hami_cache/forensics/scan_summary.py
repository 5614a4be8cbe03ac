"""What a scan found, all files together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hami_cache.forensics.scan_row import Row

NO_LAYOUT = "none"
"""The layout of files that were not read."""


@dataclass(slots=True)
class Summary:
    """Counts of files.

    Attributes:
        unopened: files that could not be opened, and places that could not be looked into.
        anomalies: by kind, the files that have it at least once.
    """

    files: int = 0
    unopened: int = 0
    layouts: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    anomalies: Counter[str] = field(default_factory=Counter)

    def counting(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows, counted as they pass."""
        for row in rows:
            self.files += 1
            self.unopened += row.error is not None
            self.layouts[row.layout or NO_LAYOUT] += 1
            self.verdicts[row.verdict] += 1
            self.anomalies.update(row.anomalies.keys())
            yield row
