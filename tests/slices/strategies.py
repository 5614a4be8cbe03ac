"""Sections, cards and charges for property tests."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from hami_cache.absent import Absent
from hami_cache.node.attribution import UNREADABLE_REASONS, Attribution
from hami_cache.node.rows import DeviceRows, ProcessRow
from hami_cache.slices.aggregate import aggregate
from hami_cache.slices.charges import Charge
from hami_cache.slices.section import NOT_MEASURED, Device, Figure, Partition, Section, Usage

NVIDIA = "nvidia"
CAPACITY_MIB = 8192

names = st.sampled_from(["main", "sidecar", "init"])
pod_uids = st.sampled_from(["pod-a", "pod-b", "pod-c"])
device_ids = st.sampled_from(["GPU-0", "GPU-1"])
refusals = st.sampled_from([*sorted(UNREADABLE_REASONS), "no_pod_component", "mediated", ""])
read_reasons = st.sampled_from(["", "", "", "unsupported", "permission", "truncated"])
memory_bytes = st.one_of(
    st.none(), st.integers(0, 3 << 30), st.sampled_from([0, 1, (1 << 20) - 1, 1 << 20, 2**64 - 1])
)
cores_percents = st.one_of(st.none(), st.integers(0, 140))
attributions = st.one_of(
    st.builds(lambda uid, name: Attribution("attributed", uid, f"id-of-{name}"), pod_uids, names),
    st.just(Attribution("excluded")),
)
refused = st.builds(lambda reason: Attribution("unattributed", reason=reason), refusals)


@dataclass(frozen=True)
class Row:
    """A process row with what attribution will say of it."""

    memory_bytes: int | None
    cores_percent: int | None
    attribution: Attribution


@dataclass(frozen=True)
class Card:
    """A card's read and its rows; pids are given in order."""

    memory_reason: str
    cores_reason: str
    rows: tuple[Row, ...]

    def section(self, capacity_mib: int = CAPACITY_MIB) -> Section:
        """The section of a node with this one card."""
        pids = range(1, len(self.rows) + 1)
        attribution = {pid: row.attribution for pid, row in zip(pids, self.rows, strict=True)}
        rows = tuple(
            ProcessRow(pid, row.memory_bytes, row.cores_percent)
            for pid, row in zip(pids, self.rows, strict=True)
        )
        section = aggregate(
            [(NVIDIA, [DeviceRows("GPU-0", self.memory_reason, self.cores_reason, rows)])],
            capacities={(NVIDIA, "GPU-0"): capacity_mib},
            resolve=lambda wanted: {pid: attribution[pid] for pid in wanted},
            name_of=lambda a: a.container_id.removeprefix("id-of-"),
        )
        assert section is not None
        return section

    def with_rows(self, *rows: Row) -> Card:
        return replace(self, rows=rows)


def rows_of(attribution: st.SearchStrategy[Attribution]) -> st.SearchStrategy[Row]:
    return st.builds(Row, memory_bytes, cores_percents, attribution)


cards = st.builds(
    Card,
    read_reasons,
    read_reasons,
    st.lists(rows_of(st.one_of(attributions, attributions, refused)), max_size=12).map(tuple),
)
clean_cards = st.builds(
    Card, read_reasons, read_reasons, st.lists(rows_of(attributions), max_size=12).map(tuple)
)

mib_figures: st.SearchStrategy[Figure] = st.one_of(st.just(NOT_MEASURED), st.integers(0, 2**44))
percent_figures: st.SearchStrategy[Figure] = st.one_of(st.just(NOT_MEASURED), st.integers(0, 100))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
counts = st.integers(0, 2**32 - 1)
usages = st.builds(Usage, texts, texts, texts, texts, mib_figures, percent_figures)
devices = st.builds(
    Device, texts, texts, texts, texts, counts, counts, counts, counts, counts, counts
)
partitions = st.builds(
    Partition,
    texts,
    texts,
    texts,
    texts,
    texts,
    mib_figures,
    mib_figures,
    percent_figures,
    texts,
    texts,
)
sections = st.builds(
    Section,
    st.lists(usages, max_size=5).map(tuple),
    st.lists(devices, max_size=5).map(tuple),
    st.lists(partitions, max_size=5).map(tuple),
    st.booleans(),
    st.integers(-1, 3),
)

absences = st.sampled_from([Absent("torn"), Absent("counter_underflow"), Absent("stale_process")])
charges = st.builds(
    Charge,
    pod_uids,
    names,
    device_ids,
    st.one_of(absences, st.integers(0, 9 << 30)),
    st.one_of(absences, st.integers(0, 140)),
)
