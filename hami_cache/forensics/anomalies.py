"""Everything that is wrong with one cache file, wherever it was found: what `doctor` says.

A snapshot names what it shows by itself (`read.signs`). Here come the clock, the processes of the
host, files that nothing can read, and files that two libvgpu versions wrote.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hami_cache.errors import FieldError, NotInitialisedError, UnknownLayoutError
from hami_cache.forensics.liveness import UNASKED, HostProcesses, Liveness
from hami_cache.forensics.recover import Recovery, recover
from hami_cache.model import Anomaly, Header, Slot, Snapshot
from hami_cache.read.cache import Cache, Engine, open_cache
from hami_cache.read.signs import refused, slots_signs
from hami_cache.read.source import read_all
from hami_cache.read.watcher import not_measured, unmeasured
from hami_cache.spec import registry
from hami_cache.spec.identify import Identification
from hami_cache.spec.layout import Layout

CLOCK_SKEW_S = 60
"""Seconds that a node's clock may be ahead of ours before a launch lies in the future."""

WATCHER_PERIOD_S = 0.15
"""A little more than the 120 ms after which the watcher has filled what it zeroed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An anomaly and its place in the file.

    Attributes:
        offset: where its field begins, in bytes; None for the whole file and for sums.
        layout: under which layout `anomaly.where` was read; None if nothing could be read.
    """

    anomaly: Anomaly
    offset: int | None = None
    layout: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessState:
    """A counted process, the layout of its slot, and whether it lives."""

    layout: str
    index: int
    pid: int
    hostpid: int
    liveness: Liveness


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found out about one file.

    Attributes:
        layout: what it was read with; None if it could not be read.
        verdict: the identification's.
        processes: of the counted slots.
        recovered: of a mixed file, whatever could be.
    """

    file: str
    layout: str | None
    verdict: str
    findings: tuple[Finding, ...]
    processes: tuple[ProcessState, ...] = ()
    recovered: Recovery | None = None


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a file cannot say itself.

    Attributes:
        now: seconds since 1970: when the file was read or copied; None is now.
        host: the processes of the host it comes from; None: not known.
    """

    now: float | None = None
    host: HostProcesses | None = None

    def time(self) -> float:
        """When the file was as it is, in seconds since 1970."""
        return time.time() if self.now is None else self.now


NOTHING_KNOWN = Circumstances()


def diagnose(
    path: Path | str,
    circumstances: Circumstances = NOTHING_KNOWN,
    *,
    layout: str | None = None,
    layouts: Path | str | None = None,
    follow: bool = False,
    engine: Engine = "native",
) -> Diagnosis:
    """Find everything that is wrong with a cache file.

    Args:
        path: a regular file.
        circumstances: the time, and the host's processes.
        layout: read it with this layout, whatever the evidence says.
        layouts: a folder of layout files searched first.
        follow: accept a symbolic link.
        engine: as for `open_cache`.

    Raises:
        SourceError: the file cannot be opened safely or is too short for the layout asked for.
        LayoutError: there is no layout of that name, or a layout file is wrong.
    """
    try:
        with open_cache(
            path, layout=layout, layouts=layouts, follow=follow, engine=engine
        ) as cache:
            found = cache.identification
            if found.verdict != "mixed" or layout is not None:
                return _clean(cache, engine, circumstances)
            known = registry.layouts(layouts)
            parties = [known[name] for name in found.parties]
            data = read_all(path, follow=follow)
            return _mixed(cache, recover(data, parties, found, len(data)), circumstances.host)
    except NotInitialisedError as error:
        return Diagnosis(str(path), None, "not_initialised", (Finding(refused(error)),))
    except UnknownLayoutError as error:
        return Diagnosis(str(path), None, "unknown", (Finding(refused(error)),))


def _clean(cache: Cache, engine: Engine, circumstances: Circumstances) -> Diagnosis:
    """A file of one layout."""
    snapshot, silent = _settled(cache, engine)
    states = _states(snapshot.slots, cache.layout, circumstances.host)
    anomalies = (*judge(snapshot, circumstances), *_dead(states))
    findings = tuple(
        _placed(anomaly, cache.layout)
        for anomaly in anomalies
        if anomaly.kind != "utilization_not_measured" or anomaly.where in silent
    )
    verdict = cache.identification.verdict
    return Diagnosis(str(cache.path), cache.layout.name, verdict, findings, states)


def judge(snapshot: Snapshot, circumstances: Circumstances) -> tuple[Anomaly, ...]:
    """What is wrong with a file of one layout, dead processes apart."""
    return (
        *_with_owner(snapshot.anomalies, snapshot, circumstances.host),
        *_by_clock(snapshot.header, snapshot.slots, circumstances),
    )


def _settled(cache: Cache, engine: Engine) -> tuple[Snapshot, frozenset[str]]:
    """A snapshot, and the places where the watcher's fields are empty for more than a moment.

    The watcher zeroes them before it fills them, so one look at a live file proves nothing.
    """
    snapshot = cache.snapshot()
    silent = _silent(snapshot)
    if silent and engine == "native":
        time.sleep(WATCHER_PERIOD_S)
        snapshot = cache.snapshot()
        silent &= _silent(snapshot)
    return snapshot, silent


def _silent(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(f"procs[{s.index}].device_util" for s in snapshot.slots if not_measured(s))


def _by_clock(
    header: Header, slots: Sequence[Slot], circumstances: Circumstances
) -> Iterator[Anomaly]:
    """Anomalies that only the time tells."""
    now = circumstances.time()
    launched = header.last_kernel_time
    if launched is not None and launched > now + CLOCK_SKEW_S:
        detail = f"{launched} is {launched - now:.0f} seconds ahead of {now:.0f}"
        yield Anomaly("last_kernel_in_future", "warning", "last_kernel_time", detail)
    with_cause = {a.where for a in unmeasured(header, slots)}
    yield from (a for a in unmeasured(header, slots, now) if a.where not in with_cause)


def _states(
    slots: Iterable[Slot], layout: Layout, host: HostProcesses | None
) -> tuple[ProcessState, ...]:
    return tuple(
        ProcessState(
            layout.name, s.index, s.pid, s.hostpid, UNASKED if host is None else host.of_slot(s)
        )
        for s in slots
        if s.counted
    )


def _dead(states: Iterable[ProcessState]) -> Iterator[Anomaly]:
    for state in states:
        if state.liveness.state == "dead":
            detail = f"pid {state.pid}: {state.liveness.detail}"
            yield Anomaly("dead_process", "warning", f"procs[{state.index}]", detail)


def _with_owner(
    anomalies: Iterable[Anomaly], snapshot: Snapshot, host: HostProcesses | None
) -> Iterator[Anomaly]:
    """The same anomalies; one about the lock's owner says whether that process lives."""
    owner = snapshot.header.owner_pid or 0
    for anomaly in anomalies:
        if anomaly.kind != "lock_held" or anomaly.where != "owner_pid":
            yield anomaly
            continue
        liveness = UNASKED if host is None else host.of_owner(owner, snapshot.slots)
        if liveness.state == "dead":
            detail = f"pid {owner} of the container holds the lock: {liveness.detail}"
            yield Anomaly("lock_owner_dead", "error", "owner_pid", detail)
        else:
            state = "alive" if liveness.state == "alive" else "whether it lives is unknown"
            detail = f"{anomaly.detail}; {state}: {liveness.detail}"
            yield replace(anomaly, detail=detail)


def _mixed(cache: Cache, recovery: Recovery, host: HostProcesses | None) -> Diagnosis:
    """A file of two layouts."""
    found = cache.identification
    findings, states = judge_recovered(recovery, found, cache.layout, host)
    name = cache.layout.name
    return Diagnosis(str(cache.path), name, found.verdict, findings, states, recovery)


def judge_recovered(
    recovery: Recovery, found: Identification, layout: Layout, host: HostProcesses | None = None
) -> tuple[tuple[Finding, ...], tuple[ProcessState, ...]]:
    """What is wrong with a file of two layouts, and the processes of its counted slots.

    Args:
        recovery: each of its slots is judged under its own layout.
        found: the identification that says so.
        layout: the one of the two that explains more.
        host: the processes of the host it comes from.
    """
    counts = f"{len(recovery.slots)} slots recovered, {len(recovery.lost)} written over"
    mixed = Anomaly("layout_mixed", "error", "", f"{found.detail}; {counts}")
    findings = [Finding(mixed, None, layout.name)]
    processes: list[ProcessState] = []
    for party in dict.fromkeys(s.layout for s in recovery.slots):
        slots = [s.slot for s in recovery.slots if s.layout is party]
        states = _states(slots, party, host)
        signs = slots_signs(recovery.headers[party.name], slots, len(recovery.devices))
        findings += [_placed(anomaly, party) for anomaly in (*signs, *_dead(states))]
        processes += states
    return tuple(findings), tuple(processes)


def _placed(anomaly: Anomaly, layout: Layout) -> Finding:
    """A finding with the offset of its field; a sum over slots lies nowhere."""
    try:
        offset = layout.field(anomaly.where).offset
    except FieldError:
        offset = None
    return Finding(anomaly, offset, layout.name)
