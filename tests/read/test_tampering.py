"""A tenant owns the file: whatever one field is set to, no other layout's figures come out.

The truth is the same file read with its own layout on request. A free reading may refuse, or make a
figure absent; it must not say another number.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hami_cache.absent import Absent
from hami_cache.errors import HamiCacheError, UnknownLayoutError
from hami_cache.model import Snapshot
from hami_cache.read.cache import open_cache
from hami_cache.spec import registry
from hami_cache.testing import CacheBuilder, Memory
from tests.goldens import LAYOUTS, USED, golden, goldens

GIB = 1 << 30
GARBAGE = b"\xff\xfe\x80\x9c" * 24

FIELDS: dict[str, list[Any]] = {
    "proc_num": [-(2**31), -1, 0, 1, 2, 1025, 2**31 - 1],
    "device_num": [0, 1, 3, 16, 17, 2**31, 2**64 - 1],
    "priority": [-(2**31), -1, 2, 7, 2**31 - 1],
    "major_version": [0, 2, 9, 2**32 - 1],
    "minor_version": [0, 1, 2, 3, 4, 2**32 - 1],
    "sm_init_flag": [-1, 1, 2, 2**31 - 1],
    "owner_pid": [71, 2**64 - 1],
    "sem": [bytes(32), b"\xff" * 32, b"\1" * 32],
    "sem_postinit": [bytes(32), b"\xff" * 32, b"\1" * 32],
    "uuids[0]": [GARBAGE, bytes(96), "GPU", "nonsense", "MIG-x", b"GPU-" + b"a" * 92],
    "uuids[1]": [GARBAGE, bytes(96)],
    "limit": [[0] * 16, [2**64 - 1] * 16],
    "sm_limit": [[2**64 - 1] * 16],
    "recent_kernel": [-2, -1, 0, 2**31 - 1],
    "utilization_switch": [-1, 0, 2],
    "last_kernel_time": [0, 2**64 - 1],
    "procs[0].pid": [-1, 0, 2**31 - 1],
    "procs[0].hostpid": [-1, 0],
    "procs[0].status": [-1, 0, 2, 3, 2**31 - 1],
    "procs[0].seqlock": [0, 1, 2**40 + 1, 2**64 - 1],
    "procs[0].used[0].total": [0, 1, 2**64 - 1],
    "procs[0].used[0].context": [0, 2**63],
    "procs[1].used[1].offset": [2**64 - 1],
    "procs[0].monitorused": [[2**64 - 1] * 16],
    "procs[0].device_util[0].sm": [2**64 - 1],
}
"""What a tenant might write into each field: out of range, absurd, or just not true."""


def cases() -> Iterator[Any]:
    for name in LAYOUTS:
        layout = registry.layout(name)
        for path, values in FIELDS.items():
            if layout.has(".".join(part.partition("[")[0] for part in path.split("."))):
                for i, value in enumerate(values):
                    yield pytest.param(name, path, value, id=f"{name}-{path}-{i}")


def lived_in(layout: str) -> CacheBuilder:
    return (
        CacheBuilder(layout)
        .device(limit=8 * GIB)
        .device(limit=4 * GIB)
        .process(71, memory=[Memory(context=300 << 20, data=GIB), 5 << 20], sm_util=[35, 1])
        .process(72, status=2, memory=[Memory(context=100 << 20, module=1 << 20, data=77)])
        .process(73, memory=[0, Memory(module=1 << 20, data=GIB)])
    )


def snapshot(path: Path, layout: str | None = None) -> Snapshot:
    with open_cache(path, layout=layout) as cache:
        return cache.snapshot()


def assert_no_other_figures(found: Snapshot, truth: Snapshot) -> None:
    assert len(found.devices) == len(truth.devices)
    for one, true in zip(found.devices, truth.devices, strict=True):
        assert (one.uuid, one.limit, one.sm_limit) == (true.uuid, true.limit, true.sm_limit)
        figures = [(getattr(one.used, part), getattr(true.used, part)) for part in USED]
        for figure, right in [*figures, (one.sm_util, true.sm_util)]:
            assert isinstance(figure, Absent) or figure == right


@pytest.mark.parametrize(("layout", "path", "value"), list(cases()))
def test_one_field_tampered_never_gives_another_layouts_figures(
    layout: str, path: str, value: Any, tmp_path: Path
) -> None:
    file = tmp_path / "x.cache"
    file.write_bytes(lived_in(layout).set(path, value).build())
    truth = snapshot(file, layout)
    try:
        found = snapshot(file)
    except UnknownLayoutError:
        assert path in ("major_version", "minor_version"), "only a false version is worth a refusal"
    else:
        assert_no_other_figures(found, truth)
        if path not in ("major_version", "minor_version"):
            assert found.layout == layout


PLAIN = [one.name for one in goldens() if one.plain]


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=st.sampled_from(PLAIN),
    where=st.one_of(st.integers(0, 8192), st.integers(1, 4096).map(lambda back: -back)),
    raw=st.one_of(
        st.binary(min_size=1, max_size=16),
        st.sampled_from([bytes(8), b"\xff" * 8, b"\1\0\0\0", b"\2\0\0\0\0\0\0\0", b"GPU-"]),
    ),
)
def test_any_few_bytes_tampered_never_give_another_layouts_figures(
    tmp_path: Path, name: str, where: int, raw: bytes
) -> None:
    """Around the header, the first slots and the counters behind them, in any golden."""
    one = golden(name)
    data = bytearray(one.data)
    offset = where % len(data)
    data[offset : offset + len(raw)] = raw
    path = tmp_path / "x.cache"
    path.write_bytes(data[: len(one.data)])
    truth = snapshot(path, one.layout)
    try:
        found = snapshot(path)
    except HamiCacheError:
        return
    assert_no_other_figures(found, truth)
