"""Pages of docs/ that are written by the code: write one, or say whether it is fresh."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def main(
    module: str, name: str, content: Callable[[], str], arguments: Sequence[str] | None = None
) -> int:
    """Write ``docs/<name>``, or with ``--check`` return 1 when it is not what the code says."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--check", action="store_true", help="only say whether the page is fresh")
    parser.add_argument("page", nargs="?", type=Path, default=DOCS / name, help=f"default: {name}")
    options = parser.parse_args(arguments)
    fresh = content()
    if not options.check:
        options.page.write_text(fresh)
    elif not options.page.is_file() or options.page.read_text() != fresh:
        print(f"{options.page} is stale: python -m {module}", file=sys.stderr)
        return 1
    return 0
