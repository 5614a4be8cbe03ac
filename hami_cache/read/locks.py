"""What a ``sem_t`` says: free or taken, and whose C library wrote it.

glibc (new ``sem_t``, 64-bit): value, waiters, then 128 for a semaphore shared between processes, as
libvgpu's are. musl: value with its top bit set while somebody waits (older releases store -1),
waiters, then 0 for a shared one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hami_cache.model import Semaphore

Libc = Literal["glibc", "musl", "unknown"]
LockState = Literal["free", "held", "blank", "unreadable"]

SHARED_GLIBC = 128
WAITED_MUSL = 1 << 31
ALL_ONES = (1 << 32) - 1
MOST_WAITERS = 1 << 20
"""More processes than a container can have: such a number is no count of waiters."""


@dataclass(frozen=True, slots=True)
class Lock:
    """A decoded semaphore.

    Attributes:
        state: ``blank``: all zero, which is a semaphore that was never initialised, or musl's taken
            one. ``unreadable``: no C library leaves these words.
        waiters: how many wait for it.
    """

    state: LockState
    libc: Libc
    waiters: int


def lock(semaphore: Semaphore) -> Lock:
    """Decode a semaphore's three words."""
    value, waiters, private = semaphore.value, semaphore.nwaiters, semaphore.private
    if value == waiters == private == 0:
        return Lock("blank", "unknown", 0)
    if waiters <= MOST_WAITERS and private == SHARED_GLIBC and value < WAITED_MUSL:
        return Lock("free" if value else "held", "glibc", waiters)
    if waiters <= MOST_WAITERS and private == 0:
        posts = 0 if value == ALL_ONES else value % WAITED_MUSL
        return Lock("free" if posts else "held", "musl", waiters)
    return Lock("unreadable", "unknown", 0)
