"""Structured logs on standard error: one record is one line, whatever the record quotes.

Records quote file names, pod names and driver messages. None of them may forge a second line, or
move a terminal's cursor.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal

from hami_cache.errors import ConfigError, one_line

LogFormat = Literal["text", "json"]

LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_CHATTY = ("httpx2", "httpcore2", "httpx", "httpcore")
"""HTTP clients that log every request as information."""

_LONGEST = 16_384
"""Characters of one field: a record may quote a whole answer of a server."""


def setup_logging(format: str, level: str) -> None:
    """Send all logs to standard error.

    Args:
        format: ``text`` (time, level, logger, message) or ``json`` (an object per line with the
            members ``time``, ``level``, ``logger``, ``message`` and, for errors that were not
            expected, ``exception``).
        level: ``debug``, ``info``, ``warning`` or ``error``.

    Raises:
        ConfigError: there is no such format or level.
    """
    formatters = {"text": TextFormatter, "json": JsonFormatter}
    if format not in formatters:
        raise ConfigError(f"there is no log format {format!r}", hint=" or ".join(formatters))
    if level not in LEVELS:
        raise ConfigError(f"there is no log level {level!r}", hint=", ".join(LEVELS))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatters[format]())
    logging.basicConfig(level=LEVELS[level], handlers=[handler], force=True)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(LEVELS[level], logging.WARNING))


def _fields(record: logging.LogRecord) -> dict[str, str]:
    """A record's fields, in the order they are written."""
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    fields = {
        "time": time.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage()[:_LONGEST],
    }
    if record.exc_info:
        # The end of a traceback says what happened; its beginning only how we came there.
        fields["exception"] = logging.Formatter().formatException(record.exc_info)[-_LONGEST:]
    return fields


class TextFormatter(logging.Formatter):
    """``time level logger: message``, with every character that is not printable escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields = _fields(record)
        head = f"{fields['time']} {fields['level']:<7} {fields['logger']}: {fields['message']}"
        return one_line(f"{head}; {fields['exception']}" if "exception" in fields else head)


class JsonFormatter(logging.Formatter):
    """A JSON object; ASCII only, so that nothing in it is left for a terminal to interpret."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        return json.dumps(_fields(record))
