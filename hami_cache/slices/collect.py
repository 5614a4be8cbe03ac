"""One pass over the node: pods -> carved cards -> rows and partitions -> the section.

None is not an empty section. An empty one claims that the node was measured and found bare; None
says that this pass could not measure, because the pods are not known yet or nobody could read a
card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hami_cache.errors import HamiCacheError
from hami_cache.node.allocations import Allocation, AllocationError, allocations, carved_cards
from hami_cache.node.attribution import Attributor, PodIndex, ProcRead
from hami_cache.node.pods import Pod, PodView
from hami_cache.node.rows import DeviceRows, PartitionReader, ProcessReader
from hami_cache.slices.aggregate import Capacities, aggregate
from hami_cache.slices.charges import Charge, Silence, unnamed
from hami_cache.slices.findings import Finding
from hami_cache.slices.merge import Limits, merge
from hami_cache.slices.partitions import claims, read_claimed, with_partitions
from hami_cache.slices.section import Section


@dataclass(frozen=True, slots=True)
class Sources:
    """Where figures come from; every one may be missing.

    Attributes:
        processes: readers of process rows by manufacturer.
        partitions: readers of hardware partitions by manufacturer.
        proc: reads the files of the host's processes; without it rows cannot be attributed and are
            not asked for.
        capacities: the cards' memory in MiB.
        charges: what the caches say.
        silent: the containers whose caches leave cards unnamed.
        limits: the containers' memory limits, as the caches hold them.
    """

    processes: Mapping[str, ProcessReader] = field(default_factory=dict)
    partitions: Mapping[str, PartitionReader] = field(default_factory=dict)
    proc: ProcRead | None = None
    capacities: Capacities = field(default_factory=dict)
    charges: Sequence[Charge] = ()
    silent: Sequence[Silence] = ()
    limits: Limits = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Collected:
    """What one pass brought.

    Attributes:
        section: the section, or None if nothing could be measured.
        findings: where the sources disagree or pass a limit.
        problems: annotations that could not be read and readers that failed; the rest of the pass
            went on.
        driver: what the driver's passes alone brought.
        charges: what the caches said, and the shares of which they should have said something.
    """

    section: Section | None
    findings: tuple[Finding, ...] = ()
    problems: tuple[HamiCacheError, ...] = ()
    driver: Section | None = None
    charges: tuple[Charge, ...] = ()


def known_pods(view: PodView) -> Iterable[Pod] | None:
    """The pods of a view, None before it has had its first complete list."""
    return view.pods.values() if view.known else None


def collect(pods: Iterable[Pod] | None, sources: Sources) -> Collected:
    """Take one pass.

    Args:
        pods: the node's pods, None if they are not known: then only the caches can say anything.
        sources: what to ask.
    """
    problems: list[HamiCacheError] = []
    if pods is None:
        problems.append(HamiCacheError("the list of the node's pods is not complete yet"))
    listed = None if pods is None else list(pods)
    held = holdings(listed or (), problems)
    driver = None if listed is None else _driver_section(listed, held, sources, problems)
    charged = _plausible(sources.charges, held)
    merged = merge(driver, charged, capacities=sources.capacities, limits=sources.limits)
    return Collected(
        merged.section,
        merged.findings,
        tuple(problems),
        driver,
        (*charged, *unnamed(charged, sources.silent, held)),
    )


def holdings(pods: Iterable[Pod], problems: list[HamiCacheError]) -> list[tuple[str, Allocation]]:
    """What the pods hold, by pod UID.

    A pod that ended holds nothing any more, though its annotation stays. One whose annotation
    cannot be read counts for nothing and is named in `problems`; the others go on.
    """
    held: list[tuple[str, Allocation]] = []
    for pod in pods:
        if pod.ended:
            continue
        try:
            held += ((pod.uid, allocation) for allocation in allocations(pod))
        except AllocationError as problem:
            problems.append(problem)
    return held


def _driver_section(
    pods: Sequence[Pod],
    held: Sequence[tuple[str, Allocation]],
    sources: Sources,
    problems: list[HamiCacheError],
) -> Section | None:
    """The driver's two passes."""
    carved = carved_cards(allocation for _, allocation in held)
    partitions = read_claimed(claims(held), sources.partitions, problems)
    section = None
    if sources.proc is not None:
        index = PodIndex.of(pods)
        section = aggregate(
            _rows(carved, sources.processes, problems),
            capacities=sources.capacities,
            resolve=Attributor(index, sources.proc).resolve,
            name_of=index.name,
        )
    return with_partitions(section, partitions, sources.capacities)


def _rows(
    carved: Mapping[str, set[str]],
    readers: Mapping[str, ProcessReader],
    problems: list[HamiCacheError],
) -> list[tuple[str, list[DeviceRows]]]:
    """The process rows of the carved cards: others have no share to measure and are not asked."""
    groups = []
    for manufacturer in sorted(carved.keys() & readers.keys()):
        try:
            rows = list(readers[manufacturer].processes(sorted(carved[manufacturer])))
        except HamiCacheError as problem:
            problems.append(problem)
            continue
        groups.append((manufacturer, rows))
    return groups


def _plausible(charges: Iterable[Charge], held: Iterable[tuple[str, Allocation]]) -> list[Charge]:
    """Charges for cards the pod holds, as far as that is known.

    A tenant can write any UUID into its cache; one of a card it was never given is no figure of
    that card.
    """
    given: dict[str, set[str]] = {}
    for pod_uid, allocation in held:
        given.setdefault(pod_uid, set()).update((allocation.device_id, allocation.partition_id))
    return [
        charge
        for charge in charges
        if charge.pod_uid not in given or charge.device_id in given[charge.pod_uid]
    ]
