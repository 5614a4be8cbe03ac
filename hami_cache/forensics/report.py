"""Cache files as one HTML page that needs nothing but itself: no network, no script.

What is shown of a file comes from its tenant: every text is escaped and cut to a length, every list
is bounded, and the page's own policy forbids it to load or to run anything.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from hami_cache.forensics.report_file import SEVERITIES, VERDICT_BADGE, section
from hami_cache.forensics.report_html import GAP_PATTERN, badge, table, text
from hami_cache.forensics.report_subject import Subject, Unopened

STYLE = """
:root { color-scheme: light; }
body { font: 14px/1.5 system-ui, "DejaVu Sans", Arial, sans-serif; color: #1f2328;
  background: #fff; margin: 2em auto; max-width: 72em; padding: 0 1.5em; }
h1 { font-size: 1.6em; } h3 { margin: 1.6em 0 .4em; }
h2 { font-size: 1.15em; border-top: 2px solid #d0d7de; padding-top: 1em; margin-top: 2.5em;
  overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: .5em 0; }
th, td { border-bottom: 1px solid #d8dee4; padding: 3px 10px; text-align: left;
  vertical-align: top; white-space: nowrap; }
th { color: #57606a; font-weight: 600; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; }
td.n { white-space: normal; }
td.long { white-space: normal; overflow-wrap: anywhere; min-width: 16em; }
.table { overflow-x: auto; }
code { font-size: .92em; }
svg { display: block; max-width: 100%; height: auto; }
svg text { fill: #1f2328; font-family: "DejaVu Sans", Arial, sans-serif; pointer-events: none; }
.badge { border-radius: 3px; padding: 1px 6px; font-size: .85em; font-weight: 600; color: #fff; }
.error { background: #b42318; } .warning { background: #9a6700; }
.info { background: #0b5cad; } .fine { background: #1a7f37; }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 1em; color: #57606a; }
.legend svg { display: inline; vertical-align: -2px; }
summary { cursor: pointer; } footer { color: #57606a; margin-top: 3em; }
@media print { h2 { break-before: page; } }
"""


def page(subjects: Sequence[Subject | Unopened], made: float, version: str) -> str:
    """The page.

    Args:
        subjects: the files, in the order in which they are shown.
        made: when, in seconds since 1970.
        version: of hami-cache.
    """
    return "\n".join(_page(subjects, made, version)) + "\n"


def _page(subjects: Sequence[Subject | Unopened], made: float, version: str) -> Iterator[str]:
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    count = f"{len(subjects)} cache file{'' if len(subjects) == 1 else 's'}"
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{count}: hami-cache</title><style>{STYLE}</style></head><body>"
    yield f'<svg width="0" height="0"><defs>{GAP_PATTERN}</defs></svg>'
    yield f"<h1>{count}</h1>"
    yield _overview(subjects)
    for number, subject in enumerate(subjects, 1):
        yield f'<section id="file-{number}"><h2>{text(subject.file)}</h2>'
        if isinstance(subject, Unopened):
            yield f"<p>{badge('unreadable', 'error')} {text(subject.error)}</p>"
        else:
            yield from section(subject)
        yield "</section>"
    time = datetime.fromtimestamp(made, UTC).isoformat(timespec="seconds")
    yield f"<footer>Made by hami-cache {text(version)} at {time}</footer></body></html>"


def _overview(subjects: Sequence[Subject | Unopened]) -> str:
    """One line a file, with links to its part."""
    columns = ("~file", "layout", "verdict", "~anomalies")
    return table(columns, (_line(n, subject) for n, subject in enumerate(subjects, 1)))


def _line(number: int, subject: Subject | Unopened) -> tuple[str, ...]:
    link = f'<a href="#file-{number}">{text(subject.file)}</a>'
    if isinstance(subject, Unopened):
        return link, "", badge("unreadable", "error"), text(subject.error)
    verdict = subject.found.verdict
    counts: Counter[str] = Counter(f.anomaly.severity for f in subject.diagnosis.findings)
    return (
        link,
        text(subject.reading.layout.name) if subject.reading else "none",
        badge(verdict, VERDICT_BADGE.get(verdict, "error")),
        " ".join(badge(f"{counts[s]} {s}", s) for s in SEVERITIES if counts[s]) or "none",
    )
