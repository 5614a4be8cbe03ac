"""One warning per cause, not per pass."""

from __future__ import annotations

import logging

MAX_TOPICS = 10_000
"""Causes remembered: tenants choose names, so the memory of them is bounded."""


class Once:
    """Logs a topic's warning when it is new or its text changed, and again after `clear`."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: dict[str, str] = {}

    def first(self, topic: str, text: str = "") -> bool:
        """Whether the topic is new, or its text is; remembers both."""
        return self._remember(topic, text)

    def warn(self, topic: str, message: str, *values: object) -> None:
        """Warn, unless this topic's last warning read the same."""
        if self._remember(topic, message % values):
            self._log.warning(message, *values)

    def clear(self, topic: str) -> None:
        """The cause is gone: the next warning about it is news."""
        self._said.pop(topic, None)

    def _remember(self, topic: str, text: str) -> bool:
        if self._said.get(topic) == text:
            return False
        if len(self._said) >= MAX_TOPICS:
            self._said.clear()
        self._said[topic] = text
        return True
