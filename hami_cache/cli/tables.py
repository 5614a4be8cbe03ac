"""What people see in a terminal: rich tables, colour only where it is a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hami_cache.absent import Absent
from hami_cache.model import Anomaly, Device, Figure, Header, Semaphore, Slot, Snapshot
from hami_cache.quantities import human_bytes as human_bytes
from hami_cache.spec.identify import Identification

SEVERITY_STYLE = {"info": "cyan", "warning": "yellow", "error": "bold red"}


def safe(text: str) -> Text:
    """Tenant text as it is, with control characters escaped and no markup interpreted."""
    return Text("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text))


def table(title: str, *columns: str) -> Table:
    """An empty table; columns that start with ``>`` are right-aligned."""
    made = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for column in columns:
        right = column.startswith(">")
        made.add_column(column.lstrip(">"), justify="right" if right else "left", overflow="fold")
    return made


def console() -> Console:
    """Standard output; colour only on a terminal, and wide when it is not one."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=140)


def print_inspection(path: str, size: int, found: Identification, snapshot: Snapshot) -> None:
    """The `inspect` view."""
    out = console()
    out.print(_summary(path, size, found, snapshot))
    out.print(_header(snapshot.header))
    out.print(_devices(snapshot.devices))
    out.print(_slots(snapshot.slots))
    if snapshot.anomalies:
        out.print(anomalies(snapshot.anomalies))
    else:
        out.print("No anomalies.")


def _summary(path: str, size: int, found: Identification, snapshot: Snapshot) -> Table:
    rows = Table.grid(padding=(0, 2))
    rows.add_row("file", safe(path))
    rows.add_row("size", f"{size} bytes")
    rows.add_row("layout", Text(snapshot.layout, "bold"))
    rows.add_row("verdict", f"{found.verdict}, confidence {found.confidence:.0%}: {found.detail}")
    for candidate in found.candidates[:3]:
        against = [e.detail for e in candidate.evidence if not e.supports]
        agree = sum(e.supports for e in candidate.evidence)
        why = f"{agree} for, {len(against)} against" + (
            f" ({'; '.join(against[:2])})" if against else ""
        )
        rows.add_row("", safe(f"{candidate.layout:<11} {candidate.score:+6.1f}  {why}"))
    return rows


def _header(header: Header) -> Table:
    rows = table("Header", "field", "value")
    version = (
        "-" if header.major_version is None else f"{header.major_version}.{header.minor_version}"
    )
    rows.add_row("version", version)
    rows.add_row("device_num", str(header.device_num))
    rows.add_row("proc_num", str(header.proc_num))
    rows.add_row("utilization_switch", str(header.utilization_switch))
    rows.add_row("recent_kernel", str(header.recent_kernel))
    rows.add_row("priority", str(header.priority))
    rows.add_row(
        "last_kernel_time", "-" if header.last_kernel_time is None else str(header.last_kernel_time)
    )
    rows.add_row("owner_pid", "-" if header.owner_pid is None else str(header.owner_pid))
    rows.add_row("sem", _semaphore(header.sem))
    rows.add_row("sem_postinit", _semaphore(header.sem_postinit))
    return rows


def _semaphore(value: Semaphore | None) -> str:
    return "-" if value is None else f"value {value.value}, {value.nwaiters} waiting"


def _devices(devices: Iterable[Device]) -> Table:
    rows = table(
        "Devices (sums over counted slots)",
        ">#", "uuid", ">used", ">limit", ">context", ">module", ">data", ">SM", ">SM limit",
    )  # fmt: skip
    for device in devices:
        uuid = (
            Text(f"absent ({device.uuid.reason})")
            if isinstance(device.uuid, Absent)
            else safe(device.uuid)
        )
        used = device.used
        rows.add_row(
            str(device.index),
            uuid,
            human_bytes(used.total),
            human_bytes(device.limit) if device.limit else "unset",
            human_bytes(used.context),
            human_bytes(used.module),
            human_bytes(used.data),
            _percent(device.sm_util),
            f"{device.sm_limit} %",
        )
    return rows


def _percent(value: Figure) -> str:
    return f"absent ({value.reason})" if isinstance(value, Absent) else f"{value} %"


def _slots(slots: Iterable[Slot]) -> Table:
    rows = table(
        "Process slots",
        ">slot",
        ">pid",
        ">hostpid",
        ">status",
        ">seqlock",
        "read",
        "counted",
        "memory by device",
    )
    for slot in slots:
        memory = "  ".join(
            f"{d}: {human_bytes(use.total)}" for d, use in enumerate(slot.used) if use.total
        )
        rows.add_row(
            str(slot.index),
            str(slot.pid),
            str(slot.hostpid),
            str(slot.status),
            "-" if slot.seqlock is None else str(slot.seqlock),
            slot.verdict,
            "yes" if slot.counted else "no",
            memory or "none",
        )
    return rows


def anomalies(found: Iterable[Anomaly]) -> Table:
    """A table of anomalies."""
    rows = table("Anomalies", "severity", "kind", "where", "detail")
    for anomaly in found:
        style = SEVERITY_STYLE[anomaly.severity]
        rows.add_row(
            Text(anomaly.severity, style), anomaly.kind, anomaly.where, safe(anomaly.detail)
        )
    return rows
