"""``/slices``: the newest slice section, never an old one that looks new."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from hami_cache.monitor.webmessages import TEXT, Request, Response
from hami_cache.slices.collect import Collected
from hami_cache.slices.sectionjson import to_json

log = logging.getLogger(__name__)

JSON = "application/json"

STALE_PERIODS = 3
"""A pass that is older than so many periods speaks of another time."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass, ready to be served.

    Attributes:
        collected: what it brought.
        document: its section as JSON, ``null`` where it could not measure.
        begun: on the page's clock; the figures are at most this old.
        time: the same in seconds since the epoch.
    """

    collected: Collected
    document: bytes
    begun: float
    time: float


class SlicesPage:
    """Takes a pass when told to (`run`, a job of the service) and serves the newest (`respond`).

    Args:
        collect: takes a pass.
        period: seconds between two of them.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        collect: Callable[[], Collected],
        period: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collect = collect
        self._period = period
        self._clock = clock
        self._said: frozenset[str] = frozenset()
        self.newest: Pass | None = None

    def run(self) -> None:
        """Take a pass; one that raises leaves the one before, which then grows old."""
        begun, now = self._clock(), time.time()
        collected = self._collect()
        section = collected.section
        document = b"null" if section is None else to_json(section)
        self.newest = Pass(collected, document + b"\n", begun, now)
        problems = frozenset(str(problem) for problem in collected.problems)
        for problem in sorted(problems - self._said):
            log.warning("slices: %s", problem)
        self._said = problems

    def current(self) -> Pass | None:
        """The newest pass, unless it is too old to speak of now."""
        newest = self.newest
        return newest if newest is not None and not self._is_stale(newest) else None

    def respond(self, _request: Request) -> Response:
        """The section with its age in seconds in the header ``Age``.

        200 with ``null`` where the pass could not measure: that is an answer. 503 where there is no
        answer of now, because no pass has ended yet or the last one is too old.
        """
        newest = self.newest
        if newest is None:
            return _refusal("no pass has been taken yet")
        age = int(self._age(newest))
        if self._is_stale(newest):
            return _refusal(
                f"the last pass is {age} s old, and one is due every {self._period:g} s"
            )
        return Response(200, JSON, newest.document, {"Age": str(age), "Cache-Control": "no-store"})

    def _age(self, taken: Pass) -> float:
        return self._clock() - taken.begun

    def _is_stale(self, taken: Pass) -> bool:
        return self._age(taken) > STALE_PERIODS * self._period


def _refusal(line: str) -> Response:
    return Response(503, TEXT, f"{line}\n".encode())
