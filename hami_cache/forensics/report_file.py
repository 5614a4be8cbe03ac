"""The part of a report that is about one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hami_cache.forensics.anomalies import Finding
from hami_cache.forensics.explain import EXPLANATIONS
from hami_cache.forensics.recover import Recovery, balances
from hami_cache.forensics.report_html import badge, size, table, text
from hami_cache.forensics.report_layout import picture
from hami_cache.forensics.report_slots import heat_map
from hami_cache.forensics.report_subject import Reading, Subject
from hami_cache.model import Device, Header, Slot
from hami_cache.read.locks import lock
from hami_cache.spec.hypothesis import Candidate
from hami_cache.spec.identify import Identification

MOST = 200
"""Rows of one table that are shown; the counted and the severe ones come first."""

OF_ONE_KIND = 10
"""Anomalies of one kind that are shown."""

SEVERITIES = ("error", "warning", "info")
VERDICT_BADGE = {"identified": "fine", "ambiguous": "warning", "not_initialised": "warning"}


def section(subject: Subject) -> Iterator[str]:
    """Everything about one file."""
    found = subject.found
    layout = text(subject.reading.layout.name) if subject.reading else "no layout"
    yield (
        f"<p>{badge(found.verdict, VERDICT_BADGE.get(found.verdict, 'error'))} <b>{layout}</b>, "
        f"confidence {found.confidence:.0%}, {subject.size} bytes: {text(found.detail)}</p>"
    )
    yield from _anomalies(subject.diagnosis.findings)
    if subject.diagnosis.recovered is not None:
        yield from _recovered(subject.diagnosis.recovered)
    if subject.reading is not None:
        yield from _reading(subject.reading, subject)
    yield from _evidence(found)


def _reading(reading: Reading, subject: Subject) -> Iterator[str]:
    layout, snapshot = reading.layout, reading.snapshot
    yield "<h3>Devices</h3>"
    yield _devices(snapshot.devices)
    yield "<h3>Slots</h3>"
    yield heat_map(layout, snapshot, _named(subject.diagnosis.findings))
    yield from _slots(snapshot.slots)
    yield "<h3>Layout</h3>"
    yield picture(layout, snapshot, subject.size)
    yield "<h3>Header</h3>"
    yield _header(snapshot.header)


def _named(findings: Sequence[Finding]) -> set[int]:
    """The slots that an anomaly names: ``procs[3].used[0].total``."""
    places = (f.anomaly.where for f in findings if f.anomaly.severity != "info")
    return {int(p[6 : p.index("]")]) for p in places if p.startswith("procs[")}


def _anomalies(findings: Sequence[Finding]) -> Iterator[str]:
    yield "<h3>Anomalies</h3>"
    if not findings:
        yield "<p>None.</p>"
        return
    columns = ("severity", "kind", "where", ">offset", "~detail", "~what to do")
    yield table(columns, _finding_rows(findings))


def _finding_rows(findings: Sequence[Finding]) -> Iterator[tuple[str, ...]]:
    """The severe ones first; of each kind some, and how many more there are."""
    ordered = sorted(findings, key=lambda f: SEVERITIES.index(f.anomaly.severity))
    kinds = dict.fromkeys((f.anomaly.severity, f.anomaly.kind) for f in ordered)
    for severity, kind in kinds:
        same = [f for f in ordered if (f.anomaly.severity, f.anomaly.kind) == (severity, kind)]
        advice = text(EXPLANATIONS[kind].advice)
        for finding in same[:OF_ONE_KIND]:
            where = f"<code>{text(finding.anomaly.where)}</code>"
            offset = "" if finding.offset is None else str(finding.offset)
            detail = text(finding.anomaly.detail)
            yield badge(severity, severity), text(kind), where, offset, detail, advice
            advice = ""
        if len(same) > OF_ONE_KIND:
            rest = f"and {len(same) - OF_ONE_KIND} more"
            yield badge(severity, severity), text(kind), rest, "", "", ""


def _rest(count: int) -> str:
    return f"<p>and {count - MOST} more</p>" if count > MOST else ""


def _devices(devices: Sequence[Device]) -> str:
    parts = ("context", "module", "data")
    return table(
        (">#", "uuid", ">in use", ">limit", *(f">{part}" for part in parts), ">SM", ">SM limit"),
        (
            (
                str(device.index),
                _figure(device.uuid),
                size(device.used.total),
                size(device.limit) if device.limit else "unset",
                *(size(getattr(device.used, part)) for part in parts),
                _percent(device),
                f"{device.sm_limit}&nbsp;%",
            )
            for device in devices
        ),
    )


def _figure(value: object) -> str:
    return f"<code>{text(value)}</code>" if isinstance(value, str) else f"<i>{text(value)}</i>"


def _percent(device: Device) -> str:
    util = device.sm_util
    return f"{util}&nbsp;%" if isinstance(util, int) else size(util)


def _slots(slots: Sequence[Slot]) -> Iterator[str]:
    ordered = sorted(slots, key=lambda slot: (not slot.counted, slot.index))
    yield table(
        (">slot", ">pid", ">host pid", ">status", ">seqlock", "read", "counted", "~memory"),
        (
            (
                str(slot.index),
                str(slot.pid),
                str(slot.hostpid),
                str(slot.status),
                "-" if slot.seqlock is None else str(slot.seqlock),
                text(slot.verdict),
                "yes" if slot.counted else "no",
                ", ".join(
                    f"{device}: {size(use.total)}"
                    for device, use in enumerate(slot.used)
                    if use.total
                ),
            )
            for slot in ordered[:MOST]
        ),
    )
    yield _rest(len(ordered))


def _header(header: Header) -> str:
    version = (
        "-" if header.major_version is None else f"{header.major_version}.{header.minor_version}"
    )
    names = ("device_num", "proc_num", "utilization_switch", "recent_kernel", "priority")
    rows = [("version", version), *((name, str(getattr(header, name))) for name in names)]
    for name in ("last_kernel_time", "owner_pid"):
        value = getattr(header, name)
        rows.append((name, "-" if value is None else str(value)))
    for name in ("sem", "sem_postinit"):
        semaphore = getattr(header, name)
        rows.append((name, "-" if semaphore is None else text(lock(semaphore).state)))
    return table(("field", ">value"), rows)


def _evidence(found: Identification) -> Iterator[str]:
    yield "<h3>Evidence</h3>"
    if not found.candidates:
        yield f"<p>{text(found.detail)}</p>"
        return
    yield "<p>Every layout is held against the file; a point is a factor e in odds.</p>"
    for number, candidate in enumerate(found.candidates):
        yield _candidate(candidate, opened=number == 0)


def _candidate(candidate: Candidate, *, opened: bool) -> str:
    agree = sum(item.supports for item in candidate.evidence)
    rows = (
        (badge("for", "fine") if item.supports else badge("against", "error"),
         text(item.kind), text(item.detail))
        for item in candidate.evidence
    )  # fmt: skip
    return (
        f"<details{' open' if opened else ''}><summary><b>{text(candidate.layout)}</b>: "
        f"{candidate.score:+.1f} ({agree} for, {len(candidate.evidence) - agree} against)"
        f"</summary>{table(('', 'probe', '~finding'), rows)}</details>"
    )


def _recovered(recovery: Recovery) -> Iterator[str]:
    yield "<h3>Recovered slot by slot</h3>"
    yield table(
        ("layout", "slot", ">offset", ">pid", ">status", "counted", "~memory"),
        (
            (
                text(found.layout.name if found.alone else f"{found.layout.name} (or the other)"),
                f"procs[{found.slot.index}]",
                str(found.offset),
                str(found.slot.pid),
                str(found.slot.status),
                "yes" if found.slot.counted else "no",
                ", ".join(
                    f"{device}: {'does not balance' if balances(use) is False else size(use.total)}"
                    for device, use in enumerate(found.slot.used)
                    if balances(use) is not None
                ),
            )
            for found in recovery.slots[:MOST]
        ),
    )
    yield _rest(len(recovery.slots))
    lost = ", ".join(f"procs[{lost.index}] of {lost.layout}" for lost in recovery.lost[:MOST])
    if lost:
        yield f"<p>Written over: {text(lost)}</p>"
    yield table(
        (">#", "uuid", ">in use, recovered"),
        (
            (str(device.index), _figure(device.uuid), size(device.used))
            for device in recovery.devices
        ),
    )
