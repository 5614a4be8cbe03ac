"""The Prometheus rules, checked and tried by promtool: every alert fires, and is silent."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.needs import attempt, run
from tests.deploy.rules import ALERTS, FOLDER, RECORDS, RULES, UNIT_TESTS

TESTS: list[dict[str, Any]] = yaml.safe_load(UNIT_TESTS.read_text())["tests"]
SEVERITIES = {"critical", "warning", "info"}


def test_promtool_finds_nothing_wrong() -> None:
    assert f"SUCCESS: {len(ALERTS) + len(RECORDS)} rules found" in run(
        "promtool", "check", "rules", RULES
    )


def test_the_unit_tests_pass() -> None:
    assert "SUCCESS" in run("promtool", "test", "rules", UNIT_TESTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_is_tried_both_ways(alert: str) -> None:
    tries = [
        bool(one["exp_alerts"])
        for test in TESTS
        for one in test.get("alert_rule_test", ())
        if one["alertname"] == alert
    ]
    assert set(tries) == {True, False}


def test_every_recorded_series_is_tried() -> None:
    tried = {one["expr"] for test in TESTS for one in test.get("promql_expr_test", ())}
    assert tried == set(RECORDS)


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("ratio > 0.95", "ratio > 0.4"),
        ("            and on (job, instance) hami_cache_last_pass_timestamp_seconds\n", ""),
    ],
)
def test_the_unit_tests_find_a_broken_rule(tmp_path: Path, line: str, instead: str) -> None:
    shutil.copy(UNIT_TESTS, tmp_path)
    text = RULES.read_text()
    assert line in text
    (tmp_path / RULES.name).write_text(text.replace(line, instead, 1))
    assert attempt("promtool", "test", "rules", tmp_path / UNIT_TESTS.name).returncode != 0


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_says_how_bad_it_is_what_it_is_and_where_to_read_on(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in SEVERITIES
    assert rule["annotations"]["runbook"] == f"docs/deploy.md#{alert.lower()}"
    assert rule["annotations"]["summary"]
    assert "for" in rule, "an alert that fires at once fires for every restart"


def test_the_folder_holds_nothing_that_no_test_reads() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {RULES.name, UNIT_TESTS.name}
