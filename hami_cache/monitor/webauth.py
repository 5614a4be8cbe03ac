"""Who may come in, and how often: basic authentication and the rate limit."""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Literal

from hami_cache.errors import ConfigError
from hami_cache.monitor.webconfig import RateLimit

Verdict = Literal["allowed", "denied", "busy"]

MAX_WAITING = 8
"""Passwords that may wait to be checked; a check takes about 0.1 s of one core."""

MAX_KNOWN = 100
"""Successful checks remembered."""

_BCRYPT_READS = 72
_NOBODYS_HASH = "." * 53
"""Salt and digest of nothing."""


class BasicAuth:
    """Checks credentials against bcrypt hashes.

    As in the exporter toolkit, an unknown user costs as much time as a wrong password, one password
    is checked at a time, and a success is remembered. Failures are not: then a flood of wrong
    passwords would push the scraper's own success out of the memory.

    Raises:
        ConfigError: the bcrypt package is not there.
    """

    def __init__(self) -> None:
        try:
            import bcrypt
        except ImportError:
            raise ConfigError(
                "basic_auth_users needs the bcrypt package", hint="pip install 'hami-cache[web]'"
            ) from None
        self._matches = bcrypt.checkpw
        self._secret = secrets.token_bytes(32)
        self._known: dict[bytes, None] = {}
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)
        self._one_at_a_time = threading.Lock()

    def check(self, users: Mapping[bytes, bytes], authorization: str) -> Verdict:
        """Whether a request with this Authorization header may pass.

        Args:
            users: bcrypt hashes by name, not empty.
            authorization: the header, "" where there is none.
        """
        credentials = read_credentials(authorization)
        if credentials is None:
            return "denied"
        user, password = credentials
        hashed = users.get(user)
        mark = self._mark(user, hashed or b"", password)
        if mark in self._known:
            return "allowed"
        if not self._waiting.acquire(blocking=False):
            return "busy"
        try:
            with self._one_at_a_time:
                right = self._is_right(password, hashed or _decoy(users))
        finally:
            self._waiting.release()
        if hashed is None or not right:
            return "denied"
        self._remember(mark)
        return "allowed"

    def _is_right(self, password: bytes, hashed: bytes) -> bool:
        try:
            # bcrypt has never read further; the package refuses longer ones since version 5.
            return self._matches(password[:_BCRYPT_READS], hashed)
        except ValueError:
            return False

    def _mark(self, user: bytes, hashed: bytes, password: bytes) -> bytes:
        """Stands for the three without keeping a password in memory."""
        text = repr((user, hashed, password)).encode()
        return hashlib.blake2b(text, key=self._secret).digest()

    def _remember(self, mark: bytes) -> None:
        with self._one_at_a_time:
            if len(self._known) >= MAX_KNOWN:
                self._known.pop(next(iter(self._known)))
            self._known[mark] = None


def _decoy(users: Mapping[bytes, bytes]) -> bytes:
    """A hash that nobody has the password of, as slow as the slowest of the real ones."""
    cost = max(int(hashed.split(b"$")[2]) for hashed in users.values())
    return f"$2b${cost:02d}${_NOBODYS_HASH}".encode()


def read_credentials(authorization: str) -> tuple[bytes, bytes] | None:
    """User and password of an Authorization header; None where it holds no basic credentials."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, separator, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except ValueError:
        return None
    return (user, password) if separator else None


class RateLimiter:
    """A bucket of tokens that starts full: every request takes one.

    Args:
        limit: how fast tokens come, and how many there is room for.
        clock: seconds, never going back.
    """

    def __init__(self, limit: RateLimit, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._tokens = float(limit.burst)
        self._counted = clock()
        self._lock = threading.Lock()

    def allow(self) -> bool:
        """Take a token, if there is one."""
        with self._lock:
            now = self._clock()
            grown = (now - self._counted) / self._limit.seconds
            self._tokens = min(self._tokens + grown, float(self._limit.burst))
            self._counted = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True
