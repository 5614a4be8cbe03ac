"""Durations as Go writes them: ``5m``, ``90s``, ``1h30m``, ``1.5s``.

The programs around us take their intervals in this form, so options and environment variables do
too.
"""

from __future__ import annotations

import re
from fractions import Fraction

from hami_cache.errors import ConfigError

_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # U+00B5, the micro sign
    "μs": 10**3,  # U+03BC, the Greek letter
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_LARGEST = 2**63 - 1
"""Go counts nanoseconds in 64 bits: a little more than 292 years."""

_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> float:
    """Read a Go duration (the grammar of `time.ParseDuration`).

    Args:
        text: one or more of number and unit (``ns us µs ms s m h``) with an optional sign, or
            ``0``.

    Returns:
        Seconds; negative when the text is.

    Raises:
        ConfigError: the text is no duration, or one beyond 292 years.

    >>> parse_duration("1h30m")
    5400.0
    """
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0.0
    parts = list(_PART.finditer(unsigned)) if len(unsigned) <= 100 else []
    if not parts or "".join(part.group() for part in parts) != unsigned:
        raise ConfigError(
            f"{text[:40]!r} is not a duration", hint="write it like 2s, 500ms or 1h30m"
        )
    nanoseconds = sum(int(Fraction(p[1].rstrip(".")) * _NANOSECONDS[p[2]]) for p in parts)
    if nanoseconds > _LARGEST:
        raise ConfigError(f"the duration {text[:40]!r} is too long", hint="292 years are the limit")
    return -nanoseconds / 10**9 if text.startswith("-") else nanoseconds / 10**9
