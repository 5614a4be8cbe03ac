"""When ``hami-cache top`` takes its next pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Pace:
    """How often everything on the screen is read anew.

    Attributes:
        interval: seconds from the end of one pass to the next.
        paused: none is taken, unless somebody asks for it.
    """

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.paused = False
        self._asked = asyncio.Event()

    def now(self) -> None:
        """Let everybody who waits take a pass at once."""
        self._asked.set()
        self._asked.clear()

    async def follow(
        self, take: Callable[[], T], show: Callable[[T], None], fail: Callable[[str], None]
    ) -> None:
        """Take passes in a thread and show them here, until cancelled.

        Reading never holds up what is drawn, a slow pass is never overtaken, and whatever happens
        to one, the next is taken.

        Args:
            take: the pass.
            show: what it found.
            fail: what went wrong with it.
        """
        while True:
            try:
                found = await asyncio.to_thread(take)
            except Exception as error:
                fail(f"{type(error).__name__}: {error}")
            else:
                show(found)
            await self._wait()

    async def _wait(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._asked.wait(), self.interval)
            except TimeoutError:
                if self.paused:
                    continue
            return
