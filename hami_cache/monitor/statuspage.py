"""The status page: what a person looks at first. Plain HTML, nothing loaded, nothing executed.

Names, uuids and details come from tenants: every text is escaped, made printable and cut to a
length, and the number of rows is bounded.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Callable, Iterator, Mapping

from hami_cache.absent import Absent
from hami_cache.errors import one_line
from hami_cache.model import Figure
from hami_cache.monitor.statusview import Condition, ContainerRow, DeviceRow, StatusView

__all__ = [
    "CONTENT_TYPE",
    "HEADERS",
    "Condition",
    "ContainerRow",
    "DeviceRow",
    "StatusView",
    "render",
]

CONTENT_TYPE = "text/html; charset=utf-8"

MAX_CONTAINERS = 500
"""Containers shown; those with something to look at come first."""

_LONGEST = 200
"""Characters of one text."""

_CALM = ("ready", "empty")
"""States that need nobody's attention."""


def render(view: StatusView) -> bytes:
    """The whole page, UTF-8."""
    return "".join(_page(view)).encode()


def _page(view: StatusView) -> Iterator[str]:
    yield '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{_text(view.node)}: hami-cache</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{_text(view.node)}</h1>"
    yield f"<p>hami-cache monitor {_text(view.version)}, up {_duration(view.uptime)}, reading "
    yield f"<code>{_text(view.root)}</code></p><dl>"
    for name, condition in view.conditions.items():
        yield f'<div class="{condition.health}"><dt>{_text(name)}</dt>'
        yield f"<dd><b>{condition.health}</b> {_text(condition.detail)}</dd></div>"
    yield "</dl>"
    yield from _containers(view)
    links = {"/metrics": "metrics", **view.links}
    items = (f'<a href="{_text(path)}">{_text(text)}</a>' for path, text in links.items())
    yield f"<p>{' '.join(items)}</p></body></html>\n"


def _containers(view: StatusView) -> Iterator[str]:
    rows = sorted(view.containers, key=lambda row: (not _needs_a_look(row), _name(row)))
    troubled = sum(map(_needs_a_look, rows))
    yield f"<h2>Containers</h2><p>{len(rows)} exported, {troubled} to look at"
    for reason, count in sorted(view.hidden.items()):
        yield f", {count} not exported ({_text(reason)})"
    yield ".</p>"
    if not rows:
        return
    yield "<div class=scroll><table><thead><tr>"
    for title in ("Pod", "Container", "State", "Layout", "Card", "Memory", "SM", "Last kernel"):
        yield f"<th>{title}</th>"
    yield "</tr></thead>"
    for row in rows[:MAX_CONTAINERS]:
        yield from _container(row)
    yield "</table></div>"
    if len(rows) > MAX_CONTAINERS:
        yield f"<p>{len(rows) - MAX_CONTAINERS} more are not shown; the metrics have them all.</p>"


def _needs_a_look(row: ContainerRow) -> bool:
    return row.state not in _CALM or bool(row.anomalies)


def _name(row: ContainerRow) -> tuple[str, str, str]:
    return (row.namespace, row.pod, row.container)


def _container(row: ContainerRow) -> Iterator[str]:
    """A table body: a line per card, and one for what is wrong."""
    span = max(len(row.devices), 1) + bool(row.anomalies)
    state = "ok" if row.state in _CALM else "bad"
    pod = f"{row.namespace}/{row.pod}" if row.namespace else row.pod
    yield f'<tbody><tr><th class="name" scope="rowgroup" rowspan="{span}">{_text(pod)}</th>'
    yield f'<td class="name" rowspan="{span}">{_text(row.container)}</td>'
    yield f'<td rowspan="{span}" class="{state}"><b>{_text(row.state)}</b></td>'
    yield f'<td rowspan="{span}">{_layout(row)}</td>'
    last_kernel = _figure(row.last_kernel, lambda seconds: f"{_duration(seconds)} ago")
    if not row.devices:
        yield f"<td></td><td></td><td></td><td>{last_kernel}</td></tr>"
    for number, device in enumerate(row.devices):
        if number:
            yield "<tr>"
        yield f'<td title="{_text(device.uuid)}">{device.index}</td><td>{_memory(device)}</td>'
        yield f"<td>{_sm(device)}</td><td>{last_kernel if number == 0 else ''}</td></tr>"
    if row.anomalies:
        yield f'<tr><td colspan="4" class="anomalies">{_anomalies(row.anomalies)}</td></tr>'
    yield "</tbody>"


def _layout(row: ContainerRow) -> str:
    if not row.layout:
        return ""
    doubt = f" <small>{row.confidence:.0%} sure</small>" if row.confidence < 1 else ""
    return _text(row.layout) + doubt


def _memory(device: DeviceRow) -> str:
    """Used against the limit as a bar, where there are both, and in words."""
    used, limit = device.used, device.limit
    if isinstance(used, Absent) or isinstance(limit, Absent):
        return f"{_figure(used, _bytes)} of {_figure(limit, _bytes)}"
    if limit == 0:
        return f"{_bytes(used)} <small>no limit</small>"
    percent = 100 * used // limit
    over = ' class="over"' if used > limit else ""
    return (
        f'<svg{over} width="100" height="10" aria-hidden="true"><rect width="100%" height="10"/>'
        f'<rect width="{min(percent, 100)}%" height="10"/></svg> '
        f'<span title="{used} of {limit} bytes">{_bytes(used)} of {_bytes(limit)}</span> '
        f"<small>{percent} %</small>"
    )


def _sm(device: DeviceRow) -> str:
    sm = _figure(device.sm, lambda percent: f"{percent} %")
    limit = device.sm_limit
    if isinstance(limit, Absent) or limit in (0, 100):
        return sm
    return f"{sm} <small>of {limit} %</small>"


def _anomalies(anomalies: Mapping[str, str]) -> str:
    return "; ".join(
        f"<b>{_text(kind)}</b> {_text(detail)}" for kind, detail in sorted(anomalies.items())
    )


def _figure(value: Figure, write: Callable[[int], str]) -> str:
    """A figure as `write` has it; what is absent is said to be so, with the reason."""
    if isinstance(value, Absent):
        return f'<span class="absent" title="{_text(value.detail)}">{_text(value.reason)}</span>'
    return write(value)


def _bytes(value: int) -> str:
    number = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.{0 if unit == 'B' else 1}f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def _duration(seconds: float) -> str:
    """The two largest units: ``3 d 4 h``, ``5 min 6 s``."""
    left = int(seconds)
    parts: list[str] = []
    for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if left >= size or parts or size == 1:
            parts.append(f"{left // size} {name}")
            left %= size
    return " ".join(parts[:2])


def _text(value: str) -> str:
    """Text from outside: printable, of bounded length, and never markup."""
    cut = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    return html.escape(one_line(cut))


_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8883;--good:#1a7f37;--bad:#c62828;--bar:#3b7dd8}
@media (prefers-color-scheme:dark){:root{--good:#4cc06d;--bad:#ff7b72;--bar:#6ea8fe}}
body{font:14px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:90rem;padding:0 1rem}
h1{font-size:1.4rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:1.5rem 0 0}
dl{display:flex;flex-wrap:wrap;gap:.6rem;margin:1rem 0}
dl div{border:1px solid var(--line);border-left:4px solid var(--line);padding:.3rem .7rem}
dt{font-weight:600}dd{margin:0;overflow-wrap:anywhere}
dl .ok{border-left-color:var(--good)}dl .bad{border-left-color:var(--bad)}
.ok b{color:var(--good)}.bad b{color:var(--bad)}.off b,small,.absent{opacity:.7;font-weight:400}
.absent{font-style:italic}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.25rem .5rem;white-space:nowrap}
td{font-variant-numeric:tabular-nums}
.name,.anomalies{white-space:normal;overflow-wrap:anywhere}.name{min-width:8rem}
thead th{border-bottom:2px solid var(--line)}tbody{border-bottom:1px solid var(--line)}
.anomalies{font-size:.9em}.anomalies b{color:var(--bad)}
svg rect:first-child{fill:var(--soft)}svg rect:last-child{fill:var(--bar)}
svg.over rect:last-child{fill:var(--bad)}
a{margin-right:1rem}
"""

_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_DIGEST}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""To send with the page: even text that got through as markup could load and execute nothing."""
