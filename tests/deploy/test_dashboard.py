"""The dashboard's own order: what Grafana would not complain about and a person would."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from tests.deploy.dashboard import DASHBOARD, PANELS, VARIABLES, Panel, expressions

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
UNITS = {"bytes", "percent", "s", "ops", "short", "bool_yes_no"}
BY_SUFFIX = (("_bytes", "bytes"), ("_ratio", "percent"), ("_seconds", "s"))

each_panel = pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])


def test_panels_are_told_apart() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    assert all(isinstance(one, int) and one > 0 for one in ids)
    assert DASHBOARD["uid"] == "hami-cache"


def test_no_panel_covers_another() -> None:
    def cells(panel: Panel) -> set[tuple[int, int]]:
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24
        rows = range(grid["y"], grid["y"] + grid["h"])
        return {(x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in rows}

    for one, other in combinations(DASHBOARD["panels"], 2):
        assert not cells(one) & cells(other), (one["title"], other["title"])


def test_everything_asks_the_data_source_that_is_chosen() -> None:
    assert VARIABLES["datasource"]["type"] == "datasource"
    assert VARIABLES["datasource"]["query"] == "prometheus"
    for one in (*PANELS, *(v for v in VARIABLES.values() if v["name"] != "datasource")):
        assert one["datasource"] == DATASOURCE
    for panel in PANELS:
        assert all(target["datasource"] == DATASOURCE for target in panel["targets"])


@each_panel
def test_a_panel_says_what_it_shows(panel: Panel) -> None:
    assert panel["title"]
    assert panel["description"] or panel["title"] == "Builds"
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    references = [target["refId"] for target in panel["targets"]]
    assert len(references) == len(set(references))
    for target in panel["targets"]:
        assert target["instant"] is not target["range"]
        assert target["instant"] is (panel["type"] != "timeseries")


@each_panel
def test_the_unit_is_the_metrics(panel: Panel) -> None:
    unit = panel["fieldConfig"]["defaults"]["unit"]
    for expression in expressions(panel):
        if re.match(r"hami_\w+\{[^}]*\}$", expression) and panel["type"] == "timeseries":
            name = expression.partition("{")[0]
            expected = next((its for suffix, its in BY_SUFFIX if name.endswith(suffix)), unit)
            assert unit == expected, expression


@each_panel
def test_a_panel_heeds_the_variables(panel: Panel) -> None:
    for expression in expressions(panel):
        for metric, matchers in re.findall(r"\b(hami_\w+)(\{[^}]*\})?", expression):
            assert 'job=~"$job"' in matchers or metric == (
                "hami_cache_last_pass_timestamp_seconds"
            ), expression


def test_variables_are_used_and_defined() -> None:
    used = set(re.findall(r"\$\{?(\w+)", str(DASHBOARD["panels"]) + str(VARIABLES)))
    assert used - {"__rate_interval"} == set(VARIABLES)


def test_one_job_is_looked_at_at_a_time() -> None:
    # Beside vGPUmonitor every series is there twice: all jobs at once would be wrong sums.
    assert VARIABLES["job"]["includeAll"] is False
    assert VARIABLES["job"]["multi"] is False
