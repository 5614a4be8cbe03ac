"""What stands in the cells of ``hami-cache top``: rich text, never markup.

Names, uuids and details come from tenants: they are escaped, and cut to a length.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from hami_cache.absent import Absent
from hami_cache.cli.tables import human_bytes, safe
from hami_cache.cli.top_reading import CALM, CacheDetail, Line
from hami_cache.model import Slot
from hami_cache.monitor.labels import Named
from hami_cache.node.devicefigures import DeviceUsage
from hami_cache.node.usagesigns import FUTURE_SECONDS

COLUMNS: Mapping[str, str] = {
    "pod": "pod", "container": "container", "state": "state", "layout": "layout", "card": "card",
    "memory": "memory of limit", "share": "share", "sm": "SM", "kernel": "last kernel",
    "anomalies": "anomalies",
}  # fmt: skip
"""Title by name, in the order in which they stand."""

SLOT_COLUMNS: Mapping[str, str] = {
    "file": "file", "slot": "slot", "pid": "pid", "hostpid": "host pid", "status": "status",
    "seqlock": "seqlock", "read": "read", "counted": "counted", "memory": "memory by card",
    "sm": "SM by card",
}  # fmt: skip
"""The same of one container's process slots."""

BAR = 10
"""Cells of a memory bar."""

POD, NAME, CARD, LONGER = 32, 20, 12, 60
"""Characters of a pod, another name, a uuid and a list that are shown."""

STATUS = {0: "exited", 1: "running", 2: "suspended"}


def cells(line: Line) -> list[Text]:
    """One line, as `COLUMNS` says."""
    named, usage = line.named, line.named.usage
    card = line.device
    return [
        short(pod_of(named), POD),
        short(named.container),
        _state(line),
        _layout(line),
        Text() if card is None else _card(card),
        Text() if card is None else _memory(card),
        Text() if card is None else _share(card),
        Text() if card is None else _sm(line, card),
        _last_kernel(line.last_kernel),
        short(", ".join(sorted(usage.anomalies)), LONGER, "yellow"),
    ]


def slot_cells(cache: CacheDetail, slot: Slot) -> list[Text]:
    """One process slot, as `SLOT_COLUMNS` says."""
    util = slot.device_util or ()
    sm = ", ".join(f"{number}: {of.sm} %" for number, of in enumerate(util) if of.sm)
    memory = ", ".join(
        f"{number}: {human_bytes(use.total)}" for number, use in enumerate(slot.used) if use.total
    )
    return [
        short(cache.name),
        Text(str(slot.index)),
        Text(str(slot.pid)),
        Text(str(slot.hostpid)),
        Text(STATUS.get(slot.status, str(slot.status))),
        Text("-" if slot.seqlock is None else str(slot.seqlock)),
        Text(slot.verdict, "" if slot.consistent else "yellow"),
        Text("yes" if slot.counted else "no", "" if slot.counted else "dim"),
        Text(memory or "none"),
        Text("-" if slot.device_util is None else sm or "none"),
    ]


def pod_of(named: Named) -> str:
    """Namespace and name of the pod; its UID where nobody knows more."""
    return f"{named.namespace}/{named.pod}" if named.namespace else named.pod


def short(text: str, longest: int = NAME, style: str = "") -> Text:
    """Text from outside: printable, never markup, without its middle where it is too long."""
    plain = safe(text).plain
    if len(plain) > longest:
        ahead = longest // 2
        plain = f"{plain[:ahead]}…{plain[ahead + 1 - longest :]}"
    return Text(plain, style)


def bar(used: int, limit: int) -> Text:
    """How much of the limit is used: a heavy line on a thin one."""
    halves = min(2 * BAR * used // limit, 2 * BAR) if used else 0
    if used:
        halves = max(halves, 1)
    whole, half = divmod(halves, 2)
    style = "bold red" if used > limit else "yellow" if used * 10 > limit * 9 else "green"
    text = Text().append("━" * whole + "╸" * half, style)
    return text.append("─" * (BAR - whole - half), "dim")


def duration(seconds: int) -> str:
    """Its two largest units: ``3d 4h``, ``5m 6s``."""
    left = seconds
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if left >= size or parts or size == 1:
            parts.append(f"{left // size}{unit}")
            left %= size
    return " ".join(parts[:2])


def _state(line: Line) -> Text:
    """In red where there is no reading, and with a mark where something is wrong with it."""
    usage = line.named.usage
    if usage.state not in CALM:
        return Text(usage.state, "bold red")
    return Text(f"{usage.state} !", "yellow") if usage.anomalies else Text(usage.state, "green")


def _layout(line: Line) -> Text:
    usage = line.named.usage
    text = Text(usage.layout)
    if usage.layout and usage.confidence < 0.995:
        text.append(f" {usage.confidence:.0%} sure", "yellow")
    return text


def _card(card: DeviceUsage) -> Text:
    return Text(f"{card.index} ").append_text(short(card.uuid[:CARD]))


def _memory(card: DeviceUsage) -> Text:
    if isinstance(card.total, Absent):
        return Text(f"absent: {card.total.reason}", "italic yellow")
    if card.limit == 0:
        return Text(f"{human_bytes(card.total)} of no limit")
    return (
        bar(card.total, card.limit)
        .append(f" {human_bytes(card.total):>10}")
        .append(f" of {human_bytes(card.limit)}", "dim")
    )


def _share(card: DeviceUsage) -> Text:
    if isinstance(card.total, Absent) or card.limit == 0:
        return Text()
    percent = 100 * card.total // card.limit
    shown = f"{percent:>3}" if percent < 1000 else ">999"
    return Text(f"{shown} %", "bold red" if card.total > card.limit else "")


def _sm(line: Line, card: DeviceUsage) -> Text:
    """Percent of the card; why it is absent, unless that stands among the anomalies."""
    if isinstance(card.sm_util, Absent):
        reason = card.sm_util.reason
        known = reason in line.named.usage.anomalies
        return Text("absent" if known else reason.replace("_", " "), "italic dim")
    text = Text(f"{card.sm_util:>3} %")
    return text.append(f" of {card.sm_limit}", "dim") if 0 < card.sm_limit < 100 else text


def _last_kernel(seconds: int | None) -> Text:
    if seconds is None:
        return Text()
    if seconds < -FUTURE_SECONDS:
        return Text("in the future", "yellow")
    return Text(duration(max(seconds, 0)))
