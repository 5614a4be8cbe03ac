"""The Prometheus rules and their unit tests."""

from __future__ import annotations

from typing import Any

import yaml

from tests.deploy.needs import DEPLOY

FOLDER = DEPLOY / "prometheus"
RULES = FOLDER / "rules.yaml"
UNIT_TESTS = FOLDER / "rules_test.yaml"

Rule = dict[str, Any]


def _rules(kind: str) -> dict[str, Rule]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    found = [rule for group in groups for rule in group["rules"] if kind in rule]
    assert len({rule[kind] for rule in found}) == len(found)
    return {rule[kind]: rule for rule in found}


ALERTS = _rules("alert")
RECORDS = _rules("record")
