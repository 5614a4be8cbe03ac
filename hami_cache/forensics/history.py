"""A recording: what a node's caches said, sample after sample.

The first frame of a stream holds every cache, the later ones what changed since. A new stream
begins from time to time, and whenever a recorder starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from hami_cache.forensics.history_delta import UNCHANGED, apply, diff
from hami_cache.forensics.history_file import Frame, FrameWriter, HistoryError, frames
from hami_cache.forensics.history_sample import Document

STREAM = 300
"""Samples after which a new stream begins."""


@dataclass(frozen=True, slots=True)
class Sample:
    """All caches at one moment.

    Attributes:
        time: seconds since 1970.
        caches: by name, ``<podUID>_<container>/<file>``.
    """

    time: float
    caches: Mapping[str, Document]


class Recording:
    """A recording being written; a context manager.

    Args:
        path: the file; one that is there already is gone on with.

    Raises:
        HistoryError: it is there and is no recording, or a damaged one.
        ConfigError: it cannot be written, or somebody else writes it.
    """

    def __init__(self, path: Path | str) -> None:
        self._file = FrameWriter(path)
        self._last: Mapping[str, Document] = {}
        self._length = 0

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    @property
    def size(self) -> int:
        """Bytes of the file so far."""
        return self._file.size

    def add(self, sample: Sample) -> None:
        """Append a sample: it is in the file when this returns.

        Raises:
            ConfigError: it cannot be written.
        """
        time, caches = round(sample.time, 3), dict(sample.caches)
        if self._length % STREAM == 0:
            self._file.append("K", {"time": time, "caches": caches})
        else:
            self._file.append("D", {"time": time, **_changes(self._last, caches)})
        self._last = caches
        self._length += 1


def _changes(old: Mapping[str, Document], new: Mapping[str, Document]) -> dict[str, Any]:
    changed = {name: diff(old[name], new[name]) for name in new.keys() & old.keys()}
    parts = {
        "gone": sorted(old.keys() - new.keys()),
        "new": {name: new[name] for name in sorted(new.keys() - old.keys())},
        "changed": {name: c for name, c in sorted(changed.items()) if c is not UNCHANGED},
    }
    return {key: part for key, part in parts.items() if part}


def replay(path: Path | str) -> Iterator[Sample]:
    """The samples of a recording, also while it is being written.

    Raises:
        SourceError: the file cannot be opened.
        HistoryError: it is no recording, or damaged; what was given before is sound.
    """
    caches: Mapping[str, Document] | None = None
    for frame in frames(path):
        try:
            caches = _next(caches, frame)
            yield Sample(float(frame.message["time"]), caches)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as e:
            reason = f"damaged: {type(e).__name__}"
            raise HistoryError(reason, path=path, offset=frame.offset) from None


def _next(caches: Mapping[str, Document] | None, frame: Frame) -> Mapping[str, Document]:
    message = frame.message
    if frame.kind == "K":
        found = message["caches"]
    elif caches is None:
        raise ValueError("changes of nothing")
    else:
        gone = set(message.get("gone", ()))
        kept = {name: its for name, its in caches.items() if name not in gone}
        changed = message.get("changed", {}).items()
        found = {**kept, **{name: apply(kept[name], change) for name, change in changed}}
        found |= message.get("new", {})
    if not all(isinstance(its, dict) for its in found.values()):
        raise ValueError("a cache is no object")
    return dict(found)
