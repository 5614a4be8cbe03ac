"""A diagnosis for people: findings by severity, what to do, and what could be recovered."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from hami_cache.cli.tables import SEVERITY_STYLE, console, human_bytes, safe, table
from hami_cache.forensics.anomalies import Diagnosis, Finding
from hami_cache.forensics.explain import EXPLANATIONS
from hami_cache.forensics.recover import Recovery, balances
from hami_cache.model import AnomalyKind

SHOWN = 10
"""Findings of one kind that are listed; the rest is only counted."""

ORDER = ("error", "warning", "info")


def print_diagnosis(found: Diagnosis, *, asked: bool) -> None:
    """One file.

    Args:
        found: what to print.
        asked: whether a host's /proc was given.
    """
    out = console()
    title = Text.assemble(safe(found.file), ": ", (found.layout or "no layout", "bold"))
    title.append(f", {found.verdict}")
    title.append(f", {_count(found.findings)}" if found.findings else ", nothing wrong")
    out.print(title)
    for severity in ORDER:
        for kind in dict.fromkeys(f.anomaly.kind for f in found.findings):
            of_kind = [f for f in found.findings if f.anomaly.kind == kind]
            same = [f for f in of_kind if f.anomaly.severity == severity]
            if same:
                _print_kind(out, kind, severity, same)
    if found.recovered is not None:
        _print_recovery(out, found.recovered)
    if found.processes:
        _say(out, 2, Text(_liveness(found, asked), "dim"))


def _say(out: Console, indent: int, text: Text) -> None:
    out.print(Padding(text, (0, 0, 0, indent), expand=False))


def _count(findings: Sequence[Finding]) -> str:
    counts = {s: sum(f.anomaly.severity == s for f in findings) for s in ORDER}
    return ", ".join(_plural(number, severity) for severity, number in counts.items() if number)


def _plural(number: int, severity: str) -> str:
    return f"{number} {severity}{'s' if number > 1 and severity != 'info' else ''}"


def _print_kind(
    out: Console, kind: AnomalyKind, severity: str, findings: Sequence[Finding]
) -> None:
    style = SEVERITY_STYLE[severity]
    head = Text.assemble((f"{severity:<8}", style), (kind, "bold"))
    _say(out, 2, head)
    for finding in findings[:SHOWN]:
        _say(out, 10, _line(finding))
    if len(findings) > SHOWN:
        rest = f"and {len(findings) - SHOWN} more (--json lists them all)"
        _say(out, 10, Text(rest, "dim"))
    _say(out, 10, Text(f"-> {EXPLANATIONS[kind].advice}", "green"))


def _line(finding: Finding) -> Text:
    anomaly = finding.anomaly
    line = Text()
    if anomaly.where:
        line.append(anomaly.where, "bold")
        if finding.offset is not None:
            line.append(f" at {finding.offset} ({finding.offset:#x})", "dim")
        line.append(": ")
    line.append_text(safe(anomaly.detail))
    return line


def _liveness(found: Diagnosis, asked: bool) -> str:
    states = [process.liveness.state for process in found.processes]
    counted = f"{len(states)} counted process{'es' if len(states) > 1 else ''}"
    if not asked:
        return f"{counted}; alive or dead is unknown without --host-proc"
    counts = (f"{states.count(s)} {s}" for s in ("alive", "dead", "unknown") if s in states)
    return f"{counted}: {', '.join(counts)}"


def _print_recovery(out: Console, recovery: Recovery) -> None:
    rows = table(
        "Recovered slot by slot",
        "layout", "slot", ">offset", ">pid", ">status", "counted", "memory by device",
    )  # fmt: skip
    for found in recovery.slots:
        slot = found.slot
        memory = (
            f"{d}: {'does not balance' if balances(use) is False else human_bytes(use.total)}"
            for d, use in enumerate(slot.used)
            if balances(use) is not None
        )
        rows.add_row(
            found.layout.name if found.alone else f"{found.layout.name} (or the other)",
            f"procs[{slot.index}]",
            str(found.offset),
            str(slot.pid),
            str(slot.status),
            "yes" if slot.counted else "no",
            "\n".join(memory) or "none",
        )
    for lost in recovery.lost:
        rows.add_row(
            lost.layout, f"procs[{lost.index}]", str(lost.offset), "-", "-", "-", "written over"
        )
    out.print(Padding(rows, (0, 0, 0, 2), expand=False))
    for device in recovery.devices:
        figure = human_bytes(device.used)
        _say(out, 2, Text(f"device {device.index}, recovered: {figure}"))
