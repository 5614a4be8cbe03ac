"""Semaphores, as the C libraries themselves leave them."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

import pytest

from hami_cache.model import Semaphore
from hami_cache.read.locks import Lock, lock
from hami_cache.testing import CacheBuilder
from tests.forensics.helpers import built, detail, kinds, where


class Glibc:
    """A real ``sem_t``."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.raw = ctypes.create_string_buffer(32)
        assert self.libc.sem_init(self.raw, 1, 1) == 0

    def words(self) -> Semaphore:
        return Semaphore(*struct.unpack_from("<IIi", self.raw.raw))


def test_glibc() -> None:
    semaphore = Glibc()
    assert lock(semaphore.words()) == Lock("free", "glibc", 0)
    assert semaphore.libc.sem_trywait(semaphore.raw) == 0
    assert lock(semaphore.words()) == Lock("held", "glibc", 0)
    assert semaphore.libc.sem_post(semaphore.raw) == 0
    assert lock(semaphore.words()) == Lock("free", "glibc", 0)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        # Printed by a program linked against musl 1.2.3; the last two are what 1.2.4 on store.
        ((1, 0, 0), Lock("free", "musl", 0)),
        ((0xFFFFFFFF, 1, 0), Lock("held", "musl", 1)),
        ((0x80000000, 2, 0), Lock("held", "musl", 2)),
        ((0x80000001, 2, 0), Lock("free", "musl", 2)),
        # The same program linked against glibc 2.36, one thread waiting.
        ((0, 1, 128), Lock("held", "glibc", 1)),
        # Never initialised, or musl's taken one: the bytes are the same.
        ((0, 0, 0), Lock("blank", "unknown", 0)),
        ((2, 0, 77), Lock("unreadable", "unknown", 0)),
        ((1, 1 << 30, 128), Lock("unreadable", "unknown", 0)),
        ((0x80000000, 0, 128), Lock("unreadable", "unknown", 0)),
    ],
)
def test_words(words: tuple[int, int, int], expected: Lock) -> None:
    assert lock(Semaphore(*words)) == expected


def cache(field: str, words: Semaphore) -> CacheBuilder:
    builder = CacheBuilder("v1.2").device(sm_limit=50)
    builder.process(7, memory=[100], sm_util=[1], monitorused=[100])
    return builder.set(field, words)


@pytest.mark.parametrize("field", ["sem", "sem_postinit"])
@pytest.mark.parametrize("words", [Semaphore(0, 3, 128), Semaphore(0x80000000, 3, 0)])
def test_a_taken_lock_without_an_owner_names_the_waiters(
    field: str, words: Semaphore, tmp_path: Path
) -> None:
    found = built(tmp_path, cache(field, words))
    assert where(found, "lock_held") == [field]
    assert "3 waiting" in detail(found, "lock_held")


def test_a_free_lock_of_musl_is_free(tmp_path: Path) -> None:
    assert kinds(built(tmp_path, cache("sem", Semaphore(1, 0, 0)))) == set()


def test_an_owner_is_named_once(tmp_path: Path) -> None:
    found = built(tmp_path, cache("sem", Semaphore(0, 0, 128)).set("owner_pid", 77))
    assert where(found, "lock_held") == ["owner_pid"]
    assert "77" in detail(found, "lock_held")
    assert "unknown" in detail(found, "lock_held")
