"""What commands that go on until they are told to stop have in common."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator

from hami_cache.durations import parse_duration
from hami_cache.errors import ConfigError

log = logging.getLogger(__name__)


def parse_interval(text: str) -> float:
    """The value of ``--interval``, a Go duration, in seconds.

    Raises:
        ConfigError: no duration, or no time at all.
    """
    seconds = parse_duration(text)
    if seconds <= 0:
        raise ConfigError(f"{text!r} is no time to wait", field="--interval", hint="say 2s")
    return min(seconds, threading.TIMEOUT_MAX)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, whatever is being waited for, and take both as the end."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        log.info("stopped")
    finally:
        signal.signal(signal.SIGTERM, before)
