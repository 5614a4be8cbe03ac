"""``hami-cache feedback``: passes of the feedback loop by themselves, with their reasons."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hami_cache.cli.options import json_option, layouts_option
from hami_cache.cli.repeating import ended_by_signals, parse_interval
from hami_cache.cli.roots import hook_path
from hami_cache.spec import registry

if TYPE_CHECKING:
    from hami_cache.monitor.feedback import Decision


@click.command()
@click.argument("root", type=click.Path(path_type=Path))
@click.option(
    "--passes", type=click.IntRange(min=1), default=1, show_default=True, help="How many passes."
)
@click.option(
    "--interval", default="5s", show_default=True, help="Time between passes: 5s, 500ms, 1m."
)
@click.option("--dry-run", is_flag=True, help="Decide, but write into no cache.")
@layouts_option
@json_option
def feedback(
    root: Path, passes: int, interval: str, dry_run: bool, layouts: Path | None, as_json: bool
) -> int:
    """Run the monitor's feedback loop by itself and say why it decides as it does.

    ROOT is HOOK_PATH or the containers directory in it. Each pass counts recent_kernel down, so do
    not run it beside a monitor, except with --dry-run. With --json: one object a pass and line.
    Exit code 1 when a cache had to be written and could not be.
    """
    from hami_cache.monitor.feedback import Feedback
    from hami_cache.node.containers import ContainerTree

    seconds = parse_interval(interval)
    registry.layouts(layouts)  # a folder that cannot be used is no cache's fault
    with contextlib.closing(ContainerTree(hook_path(root), layouts=layouts)) as tree:
        loop = Feedback(tree, read_only=dry_run, layouts=layouts)
        with ended_by_signals():
            for number in range(1, passes + 1):
                if number > 1:
                    time.sleep(seconds)
                with tree.lock:
                    tree.refresh(complete=True)
                    decisions = loop.step()
                if as_json:
                    document = {"pass": number, "decisions": [*map(decision_json, decisions)]}
                    print(json.dumps(document), flush=True)
                else:
                    _print(number, decisions)
    return 1 if loop.failures else 0


def decision_json(decision: Decision) -> dict[str, Any]:
    """The JSON of one decision; the numbers are null where the cache takes no part."""
    return {
        "pod_uid": decision.container.pod_uid,
        "container": decision.container.container,
        "cache": decision.cache,
        "priority": decision.priority,
        "recent_kernel": {
            "before": decision.recent_kernel_before,
            "after": decision.recent_kernel_after,
        },
        "utilization_switch": {"before": decision.switch_before, "after": decision.switch_after},
        "blocked": decision.blocked,
        "reason": decision.reason,
        "written": decision.written,
        "error": decision.error,
    }


def _print(number: int, decisions: Sequence[Decision]) -> None:
    from hami_cache.cli.tables import console, safe, table

    rows = table(
        f"Pass {number}", "container", "cache", ">priority", ">recent_kernel", ">switch", "written",
        "why",
    )  # fmt: skip
    for d in decisions:
        reason = d.reason if d.task is None or not d.error else f"{d.reason}; {d.error}"
        rows.add_row(
            safe(f"{d.container.pod_uid}_{d.container.container}"),
            safe(d.cache),
            _number(d.priority),
            _step(d.recent_kernel_before, d.recent_kernel_after),
            _step(d.switch_before, d.switch_after),
            "yes" if d.written else "",
            safe(reason),
        )
    console().print(rows)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _step(before: int | None, after: int | None) -> str:
    return _number(after) if before == after else f"{_number(before)} -> {_number(after)}"
