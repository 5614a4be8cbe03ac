"""Reading while real threads and processes write at full speed: what is called stable has to be so.

The writers keep invariants that the reader knows nothing of. In ring mode every thread walks a unit
of its own through all parts of all devices, one call each, so that at any moment the parts that
hold it are neighbours: parts read at different times show a gap, even where they add up to the
total. In joint mode one section changes everything at once. Under churn slots move all the time.

`make soak` runs the same for minutes.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from hami_cache import layouts, open_cache
from hami_cache.read import seqlock
from hami_cache.read.cache import Cache
from hami_cache.read.figures import FigurePlan
from hami_cache.read.region import Region
from hami_cache.read.seqlock import FIGURES, Bounds
from hami_cache.spec.layout import Layout
from hami_cache.testing.writers import UNIT_BITS, Writer

pytestmark = pytest.mark.soak

SECONDS = 60.0 if os.environ.get("HAMI_CACHE_SOAK") else 1.2
READERS = 2
DEVICES = 2
BATCH = 500
"""Readings of the same file in one native call: more of them than Python could ask for."""

BOUNDS = Bounds(slot_ns=20_000, call_ns=BATCH * 20_000)
"""Short: a writer that lost its core inside a call is what most readings should meet."""

PARTS = ("context", "module", "data")
COLUMN = {name: FIGURES.index(name) for name in FIGURES}
STABLE = seqlock.VERDICTS.index("stable")

every_protected_layout = pytest.mark.parametrize(
    "layout",
    [layout for layout in layouts().values() if layout.seqlock],
    ids=lambda layout: layout.name,
)

Words = np.ndarray[Any, np.dtype[np.uint64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Broken = Callable[[Words], Mask]
"""Says of readings (n, devices, parts) which ones break an invariant."""


def ring_is_broken(parts: Words) -> Mask:
    """Some thread's unit stands twice in a part, or in parts that are not neighbours."""
    flat = parts.reshape(len(parts), DEVICES * len(PARTS), 1)
    digits = flat >> np.arange(0, 48, UNIT_BITS, dtype=np.uint64) & np.uint64(0xFF)
    gaps = (digits[:, 1:] != digits[:, :-1]).sum(axis=1) > 1
    broken: Mask = ((digits > 1).any(axis=1) | gaps).any(axis=1)
    return broken


def joint_is_broken(parts: Words) -> Mask:
    """The parts are not 1 : 2 : 3, or the devices are not alike."""
    once = parts[:, :1, :1] * np.array([1, 2, 3], np.uint64)
    broken: Mask = (parts != once).any(axis=(1, 2))
    return broken


def stable_figures(cache: Cache) -> Iterator[tuple[Words, Counter[str]]]:
    """Breakdowns that hc_figures calls stable, batch by batch."""
    plan = FigurePlan([cache.target()] * BATCH, DEVICES)
    while True:
        figures = plan.read(BOUNDS)
        reports = figures.reports
        assert set(reports["status"]) <= {seqlock.STATUS_READ, seqlock.STATUS_UNSETTLED}
        stable = (reports["status"] == seqlock.STATUS_READ) & (figures.flags == 0).all(axis=1)
        verdicts = ("stable", "torn", "stuck", "unbalanced", "retries")
        counts = Counter({name: int(reports[name].sum()) for name in verdicts})
        values = figures.values[stable]
        parts = values[..., [COLUMN[name] for name in PARTS]]
        assert (values[..., COLUMN["total"]] == parts.sum(axis=-1)).all()
        yield parts, counts


def stable_copies(cache: Cache) -> Iterator[tuple[Words, Counter[str]]]:
    """The same of hc_copy, slot by slot."""
    while True:
        copy = seqlock.copy(cache.target(), BOUNDS)
        assert copy.status in (seqlock.STATUS_READ, seqlock.STATUS_UNSETTLED)
        region = Region(cache.layout, copy.data, copy.verdicts)
        verdicts = np.frombuffer(copy.verdicts, np.uint8)
        stable = verdicts == STABLE
        columns = [region.slot_column(f"used.{name}")[stable, :DEVICES] for name in PARTS]
        parts = np.stack(columns, axis=-1)
        assert (region.slot_column("seqlock")[stable] % 2 == 0).all()
        totals = region.slot_column("used.total")[stable, :DEVICES]
        assert (totals == parts.sum(axis=-1)).all()
        names = Counter(seqlock.VERDICTS[code] for code in verdicts if code)
        yield parts, names + Counter({"retries": copy.retries})


def watch(cache: Cache, is_broken: Broken, deadline: float) -> tuple[Counter[str], int]:
    """Read both ways until the deadline: what was found, and how many different stable readings."""
    seen: Counter[str] = Counter()
    different: set[bytes] = set()
    figures, copies = stable_figures(cache), stable_copies(cache)
    while time.monotonic() < deadline:
        for source in (*[figures] * 10, copies):
            parts, counts = next(source)
            seen += counts
            seen["readings"] += len(parts)
            seen["broken"] += int(is_broken(parts).sum())
            different.update(parts[k].tobytes() for k in range(0, len(parts), 10))
    return seen, len(different)


def race(cache: Cache, is_broken: Broken) -> Counter[str]:
    """Two readers against the writers of a cache, for SECONDS: what they found."""
    deadline = time.monotonic() + SECONDS
    with ThreadPoolExecutor(READERS) as pool:
        jobs = [pool.submit(watch, cache, is_broken, deadline) for _ in range(READERS)]
        results = [job.result() for job in jobs]
    seen = sum((counts for counts, _ in results), Counter[str]())
    seen["different"] = sum(different for _, different in results)
    return seen


@every_protected_layout
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_no_stable_reading_mixes_moments(layout: Layout, threads: int, tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    with (
        Writer(path, layout, "ring", devices=DEVICES, threads=threads) as writer,
        open_cache(path, layout=layout) as cache,
    ):
        seen = race(cache, ring_is_broken)
        assert seen["broken"] == 0
        assert min(seen["different"], seen["retries"], seen["readings"]) > 3
        writer.order("die", 0)
        figures = FigurePlan([cache.target()], DEVICES).read()
        # Threads that died together may leave an even counter; then the sums give them away.
        caught = figures.reports["stuck"] + (figures.reports["unbalanced"] if threads > 1 else 0)
        assert caught.tolist() == [1]
        assert figures.flags[0, 0] in (seqlock.FLAG_STUCK, seqlock.FLAG_UNBALANCED)


@every_protected_layout
def test_one_section_is_seen_whole_or_not_at_all(layout: Layout, tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    with (
        Writer(path, layout, "joint", devices=DEVICES, processes=2),
        open_cache(path, layout=layout) as cache,
    ):
        seen = race(cache, joint_is_broken)
        assert seen["broken"] == 0
        assert min(seen["different"], seen["retries"], seen["readings"]) > 3


def digits(totals: Words) -> Words:
    """How often each of the people that a churning writer plays stands in sums (.., devices)."""
    return totals[..., None] >> np.arange(0, 32, UNIT_BITS, dtype=np.uint64) & np.uint64(0xFF)


def settled_totals(cache: Cache) -> Iterator[Words]:
    """Sums over the slots, as (n, devices), of readings that nobody's lock casts doubt on."""
    plan = FigurePlan([cache.target()] * BATCH, DEVICES)
    while True:
        figures = plan.read(BOUNDS)
        good = (figures.reports["status"] == seqlock.STATUS_READ) & (figures.reports["locked"] == 0)
        yield figures.values[good][..., COLUMN["total"]]
        yield copied_totals(cache)


def copied_totals(cache: Cache) -> Words:
    """The same of one copy: none or one row."""
    copy = seqlock.copy(cache.target(), BOUNDS)
    region = Region(cache.layout, copy.data, copy.verdicts)
    if copy.status != seqlock.STATUS_READ or region.required("owner_pid"):
        return np.empty((0, DEVICES), np.uint64)
    below = region.required("proc_num")
    alive = np.flatnonzero(region.slot_column("status")[:below])
    _, once = np.unique(region.slot_column("pid")[alive], return_index=True)
    totals: Words = region.slot_column("used.total")[alive[once], :DEVICES].sum(axis=0)[None]
    return totals


@every_protected_layout
@pytest.mark.parametrize("exit", ["move", "clear"])
def test_nobody_is_counted_twice_while_slots_move(
    layout: Layout, exit: Literal["move", "clear"], tmp_path: Path
) -> None:
    """At most one of the writer's people is out at any time; everybody else stands there once."""
    path = tmp_path / "x.cache"
    with (
        Writer(path, layout, "churn", devices=DEVICES, exit=exit),
        open_cache(path, layout=layout) as cache,
    ):

        def read(deadline: float) -> list[Words]:
            found: list[Words] = []
            for totals in settled_totals(cache):
                found.append(digits(totals))
                if time.monotonic() > deadline:
                    return found
            raise AssertionError

        deadline = time.monotonic() + SECONDS
        with ThreadPoolExecutor(READERS) as pool:
            jobs = [pool.submit(read, deadline) for _ in range(READERS)]
            people = np.concatenate([found for job in jobs for found in job.result()])
        assert len(people) > 100
        assert people.max() == 1
        assert people.sum(axis=-1).min() >= 3
