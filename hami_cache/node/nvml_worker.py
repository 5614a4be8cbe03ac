"""A thread for calls that may never come back.

A driver in trouble can hold a call for minutes, and no signal ends it. So the calls are made on one
thread of their own and the callers wait only so long; while a call is stuck, everybody else is told
so at once.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """Runs jobs one after the other on a thread that does not keep the process from ending.

    Args:
        idle: run when no job came for `idle_seconds`, on the same thread.
        idle_seconds: how long that is.
    """

    def __init__(self, idle: Callable[[], None], idle_seconds: float) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        self._idle = idle
        self._idle_seconds = idle_seconds
        self._overdue: Future[Any] | None = None
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)
        self._thread.start()

    def call(self, job: Callable[[], T], deadline: float) -> T:
        """Run `job` and hand back what it returns or raises.

        Args:
            job: runs to its end even when nobody waits for it any more, unless it had not begun.
            deadline: seconds to wait.

        Raises:
            TimeoutError: it is not done, or an earlier job is stuck.
        """
        if self._overdue is not None and not self._overdue.done():
            raise TimeoutError
        future: Future[T] = Future()
        self._jobs.put((job, future))
        try:
            return future.result(deadline)
        except TimeoutError:
            if not future.cancel():
                self._overdue = future
            raise

    def stop(self, last: Callable[[], None], deadline: float) -> None:
        """Finish the jobs, run `last`, end. A stuck job is left behind after `deadline` seconds."""
        self._jobs.put((last, Future()))
        self._jobs.put(None)
        self._thread.join(deadline)

    def _run(self) -> None:
        while True:
            try:
                entry = self._jobs.get(timeout=self._idle_seconds)
            except queue.Empty:
                self._idle()
                continue
            if entry is None:
                return
            job, future = entry
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except BaseException as error:  # the caller's to deal with, whatever it is
                    future.set_exception(error)
