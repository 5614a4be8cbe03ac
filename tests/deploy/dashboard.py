"""The Grafana dashboard, and what its panels ask."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.deploy.needs import DEPLOY

Panel = dict[str, Any]

DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "hami-cache.json").read_text())
PANELS: list[Panel] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
VARIABLES = {one["name"]: one for one in DASHBOARD["templating"]["list"]}

INTERVAL = "5m"


def expressions(panel: Panel) -> Iterator[str]:
    """What a panel asks, with its variables as they stand."""
    yield from (target["expr"] for target in panel["targets"])


def filled_in(expression: str) -> str:
    """The same for all jobs, nodes and tenants."""
    whole = expression.replace("$__rate_interval", INTERVAL)
    return re.sub(r"\$(job|node|namespace|pod)\b", ".*", whole)


def labels_shown(panel: Panel) -> set[str]:
    """Labels in legends, and columns that a table arranges."""
    shown = set()
    for target in panel["targets"]:
        shown.update(re.findall(r"\{\{\s*(\w+)\s*\}\}", target["legendFormat"]))
    for step in panel.get("transformations", ()):
        shown.update(step["options"].get("indexByName", ()))
        shown.update(step["options"].get("renameByName", ()))
    return shown
