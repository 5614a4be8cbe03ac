"""Any bytes, of any length, give a result or one clear error; and both engines give the same.

Mutated files start out as their writers leave them, and are then set, patched and cut at will.
`make fuzz` tries many more.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hami_cache import identify, layouts, open_cache, read_figures
from hami_cache.absent import Absent
from hami_cache.errors import HamiCacheError
from hami_cache.model import Device, Snapshot
from hami_cache.read import jsonform, seqlock
from hami_cache.read.cache import Engine
from hami_cache.read.seqlock import FIGURES, Bounds
from hami_cache.spec.layout import Layout, Struct
from hami_cache.testing import CacheBuilder, Memory

pytestmark = pytest.mark.fuzz

LAYOUTS = list(layouts().values())
HASTY = Bounds(slot_ns=0, call_ns=0)
"""Nobody writes these files: waiting for a slot that is stuck would only cost time."""

bounded = settings(
    deadline=None,
    max_examples=1500 if os.environ.get("HAMI_CACHE_FUZZ") else 40,
    suppress_health_check=[HealthCheck.too_slow],
)

SHORT = st.binary(max_size=200)
MAGIC = LAYOUTS[-1].identity.magic.to_bytes(4, "little")
SIZES = st.sampled_from(
    [0, 1, 11, 12, 4096, *(s + d for lo in LAYOUTS for s in (lo.sizeof,) for d in (-1, 0, 1, 2))]
) | st.integers(0, 2_100_000)
EDGES = st.sampled_from([0, 1, 2, 3, 16, 17, 1023, 1024, 1025, 2**31 - 1, 2**31, 2**32 - 1])
HALVES = EDGES | st.sampled_from([-1, -2, -(2**31)]) | st.integers(-(2**31), 2**32 - 1)
WORDS = EDGES | st.sampled_from([2**51, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 5])


def numbers(layout: Layout) -> Iterator[tuple[str, int]]:
    """Paths and sizes of every number of the region, those of four slots among them."""

    def below(prefix: str, struct: Struct) -> Iterator[tuple[str, int]]:
        for member in struct.fields:
            last = member.count - 1
            indices = sorted({0, min(1, last), last}) if member.array else [None]
            for index in indices:
                path = f"{prefix}{member.logical}" + ("" if index is None else f"[{index}]")
                if member.ctype.kind == "struct":
                    yield from below(f"{path}.", layout.struct_of(member))
                elif member.ctype.kind in ("signed", "unsigned"):
                    yield path, member.ctype.size

    return below("", layout.region)


NUMBERS = {layout.name: list(numbers(layout)) for layout in LAYOUTS}


@dataclasses.dataclass(frozen=True)
class Made:
    """How a file was made; small enough to be printed when it fails."""

    name: str
    devices: int
    processes: int
    fields: tuple[tuple[str, int], ...]
    patches: tuple[tuple[int, bytes], ...]
    size: int | None

    @property
    def layout(self) -> Layout:
        return layouts()[self.name]

    def build(self) -> bytes:
        builder = CacheBuilder(self.layout)
        for _ in range(self.devices):
            builder.device()
        for pid in range(1, self.processes + 1):
            builder.process(pid, memory=[Memory(pid, 2, 3 << 30), 5 << 20], sm_util=[pid])
        for path, value in self.fields:
            builder.set(path, value)
        for offset, raw in self.patches:
            builder.patch(offset, raw)
        return (builder if self.size is None else builder.resize(self.size)).build()


@st.composite
def mutated(draw: st.DrawFn) -> Made:
    """A file of some layout, as its writer left it, and then changed."""
    layout = draw(st.sampled_from(LAYOUTS))
    chosen = draw(st.lists(st.sampled_from(NUMBERS[layout.name]), max_size=6))
    places = draw(st.lists(st.integers(0, layout.sizeof - 1), max_size=3))
    return Made(
        layout.name,
        devices=draw(st.integers(1, 3)),
        processes=draw(st.integers(0, 4)),
        fields=tuple((path, draw(WORDS if size == 8 else HALVES)) for path, size in chosen),
        patches=tuple((place, draw(SHORT)) for place in places),
        size=draw(SIZES) if draw(st.integers(0, 4)) == 0 else None,
    )


def snapshot(path: Path, layout: Layout | None, engine: Engine) -> Snapshot | None:
    """A snapshot, or None for an error of ours; anything else gets out."""
    try:
        with open_cache(path, layout=layout, engine=engine) as cache:
            found = cache.snapshot(HASTY)
            json.dumps(jsonform.inspection(cache.identification, found, str(path), 1))
            return dataclasses.replace(found, retries=0)
    except HamiCacheError as error:
        assert "\n" not in str(error)
        return None


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile") / "x.cache"


@bounded
@given(content=SHORT | SHORT.map(lambda tail: MAGIC + tail), size=SIZES)
def test_any_bytes_give_a_result_or_a_clear_error(path: Path, content: bytes, size: int) -> None:
    content = content[:size].ljust(size, content[-1:] or b"\0")
    assert identify(content).detail
    path.write_bytes(content)
    snapshot(path, None, "native")
    forced = snapshot(path, LAYOUTS[-1], "native")
    assert (forced is None) == (size < LAYOUTS[-1].sizeof)


@bounded
@given(made=mutated())
def test_a_mutated_file_gives_a_result_or_a_clear_error(path: Path, made: Made) -> None:
    layout, content = made.layout, made.build()
    assert identify(content).detail
    path.write_bytes(content)
    assert snapshot(path, None, "native") == snapshot(path, None, "numpy")
    mine = snapshot(path, layout, "native")
    assert mine == snapshot(path, layout, "numpy")
    assert (mine is None) == (len(content) < layout.sizeof)


BROKEN_PARTS = (
    seqlock.FLAG_UNDERFLOW
    | seqlock.FLAG_PART_UNDERFLOW
    | seqlock.FLAG_STUCK
    | seqlock.FLAG_UNSTABLE
    | seqlock.FLAG_UNBALANCED
)


def agree(device: Device, row: list[int], flags: int) -> None:
    """A device of a snapshot and its row of figures say the same, or both say nothing."""
    columns = dict(zip(FIGURES, row, strict=True))
    assert (device.limit, device.sm_limit) == (columns["limit"], columns["sm_limit"])
    if flags & seqlock.FLAG_OVERFLOW:
        return  # the figures are more cautious about numbers that no card has
    total = device.used.total
    assert isinstance(total, Absent) == bool(flags & seqlock.FLAG_UNDERFLOW)
    assert isinstance(total, Absent) or total == columns["total"]
    for name in ("context", "module", "data"):
        part = getattr(device.used, name)
        assert isinstance(part, Absent) or flags & BROKEN_PARTS or part == columns[name]
        assert not isinstance(part, Absent) or flags & BROKEN_PARTS
    sm = device.sm_util
    assert isinstance(sm, Absent) or flags & seqlock.FLAG_SM_OVERFLOW or sm == columns["sm_util"]


@bounded
@given(made=mutated())
def test_figures_and_snapshots_agree(path: Path, made: Made) -> None:
    layout, content = made.layout, made.build()
    path.write_bytes(content)
    if len(content) < layout.sizeof:
        return
    with open_cache(path, layout=layout) as cache:
        figures = read_figures([cache], bounds=HASTY)
        found = cache.snapshot(HASTY)
    initialised = found.header.initialized_flag == layout.identity.magic
    status = seqlock.STATUS_READ if initialised else seqlock.STATUS_NOT_INITIALISED
    assert figures.reports["status"] == status
    if initialised:
        rows = figures.values[0].tolist(), figures.flags[0].tolist()
        for device, row, flags in zip(found.devices, *rows, strict=False):
            agree(device, row, flags)
        assert not figures.values[0, len(found.devices) :].any()
