"""Runs every benchmark in one process and writes docs/benchmarks.md: medians, and ratios to ours.

python -m benchmarks.report
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
OURS = "hami-cache"

GO = {
    "rows D1P1": 0.18, "rows D8P8": 9.0, "rows D8P64": 71.0, "rows D16P1024": 2458.0,
    "raw, 100 containers D8P8": 913.0,
    "scrape of 100 containers x 8 devices, read and written out": 27_000.0,
}  # fmt: skip
"""Microseconds of the Go monitor that is replaced, from another run: for orientation."""


INTRODUCTION = """# Benchmarks

Written by `make bench`; every peer's answer is compared with ours before it is measured. Medians of
one run in one process; absolute figures differ between machines, ratios hold better. Go is the
monitor that is replaced, from another run on another machine.

"""


def main() -> int:
    """Measure and write the page."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        files = sorted(str(path) for path in Path(__file__).parent.glob("bench_*.py"))
        command = [
            sys.executable, "-m", "pytest", *files, "-p", "no:xdist", "--benchmark-only",
            f"--benchmark-json={result}", "--timeout", "600",
        ]  # fmt: skip
        run = subprocess.run(command, cwd=ROOT, check=False)
        if run.returncode:
            return run.returncode
        document = json.loads(result.read_text())
    PAGE.write_text("".join(page(document)))
    print(f"wrote {PAGE}")
    return 0


def page(document: Mapping[str, Any]) -> Iterator[str]:
    """The page, line by line."""
    machine = document["machine_info"]
    yield INTRODUCTION
    yield f"{machine['cpu'].get('brand_raw', platform.machine())}, {machine['cpu'].get('count')} "
    yield f"cores, Python {machine['python_version']}.\n"
    groups: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for one in document["benchmarks"]:
        peer = one["extra_info"].get("peer", one["name"])
        groups[one["group"] or "others"].append((peer, one["stats"]["median"] * 1e6))
    for name, rows in groups.items():
        yield from table(name, rows)


def table(name: str, rows: Sequence[tuple[str, float]]) -> Iterator[str]:
    """One group as a table."""
    ours = dict(rows).get(OURS)
    yield f"\n## {name}\n\n| | microseconds | ratio to ours |\n|---|---|---|\n"
    for peer, micros in rows:
        ratio = "" if ours is None else f"{micros / ours:.2f}"
        yield f"| {peer} | {micros:,.2f} | {ratio} |\n"
    if name in GO and ours is not None:
        yield f"| Go (elsewhere) | {GO[name]:,.2f} | {GO[name] / ours:.2f} |\n"


if __name__ == "__main__":
    sys.exit(main())
