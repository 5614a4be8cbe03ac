"""Every metric and label that dashboard and rules name is in a rich scrape.

And a real Prometheus, which scrapes that node with these rules, has an answer to every panel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest

from hami_cache.model import ANOMALY_KINDS
from tests.deploy.dashboard import PANELS, VARIABLES, expressions, filled_in, labels_shown
from tests.deploy.needs import ROOT
from tests.deploy.promql import named
from tests.deploy.richnode import is_settled, labels_of, rich_node
from tests.deploy.rules import ALERTS, RECORDS, RULES
from tests.monitor.node import Running
from tests.monitor.prometheus import Prometheus, prometheus_with

TARGET = {"job", "instance", "node"}
"""Labels that scraping adds; node by the relabeling of every PodMonitor and ServiceMonitor."""

JOB = "kube-system/hami-cache"

Labels = Mapping[str, set[str]]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with rich_node(tmp_path_factory.mktemp("rich")) as running:
        running.until(is_settled)
        yield running


@pytest.fixture(scope="module")
def exported(node: Running) -> Labels:
    """Name -> labels, of the scrape, of Prometheus itself and of what the rules record."""
    found = {"up": set[str](), **labels_of(node.scrape())}
    found = {name: labels | TARGET for name, labels in found.items()}
    for record, rule in RECORDS.items():
        asked = named(rule["expr"])
        found[record] = set().union(*(found[metric] for metric in asked.metrics))
    return found


def check(expression: str, exported: Labels) -> set[str]:
    """Fail for what the expression names and nobody exports; the labels that there are."""
    asked = named(expression)
    available = set(asked.made)
    for metric, labels in asked.metrics.items():
        assert metric in exported, f"nobody exports {metric}: {expression}"
        assert labels <= exported[metric], f"{metric} has no {labels - exported[metric]}"
        available |= exported[metric]
    assert asked.grouping <= available, f"no label {asked.grouping - available}: {expression}"
    return available


def test_the_scrape_is_rich(exported: Labels) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| (`.+?) \|", page, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`([A-Za-z_]+)`", row)}
    histograms = {name.removesuffix("_bucket") for name in exported}
    assert documented - set(exported) - histograms == set()


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_what_a_panel_names_is_exported(panel: dict[str, object], exported: Labels) -> None:
    available: set[str] = set()
    for expression in expressions(panel):
        available |= check(filled_in(expression), exported)
    assert labels_shown(panel) <= available


def test_what_the_variables_ask_for_is_exported(exported: Labels) -> None:
    for variable in VARIABLES.values():
        if variable["type"] == "query":
            asked = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert asked is not None
            assert asked[2] in check(filled_in(asked[1]), exported)


@pytest.mark.parametrize("name", [*ALERTS, *RECORDS])
def test_what_a_rule_names_is_exported(name: str, exported: Labels) -> None:
    rule = ALERTS.get(name) or RECORDS[name]
    available = check(rule["expr"], exported)
    text = " ".join(rule.get("annotations", {}).values())
    assert set(re.findall(r"\$labels\.(\w+)", text)) <= available


def test_the_values_that_matchers_compare_with_exist() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    for expression in (
        *(rule["expr"] for rule in (*ALERTS.values(), *RECORDS.values())),
        *(filled_in(one) for panel in PANELS for one in expressions(panel)),
    ):
        values = named(expression).values
        assert values.get("kind", set()) <= set(ANOMALY_KINDS)
        for state in values.get("state", set()):
            assert f"`{state}`" in page or f" {state}," in page, state


@pytest.fixture(scope="module")
def prometheus(node: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A real one, with the rules, that scrapes as the PodMonitor makes it."""
    folder = tmp_path_factory.mktemp("prometheus")
    target = {"targets": [f"127.0.0.1:{node.port}"], "labels": {"node": "node-a"}}
    config = {
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": JOB, "honor_labels": True, "static_configs": [target]}],
    }
    with prometheus_with(config, folder) as running:
        running.until("instance:hami_cache_pass_duration_seconds:p99 > 0")
        yield running


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_a_panel_has_something_to_show(panel: dict[str, object], prometheus: Prometheus) -> None:
    for expression in expressions(panel):
        assert prometheus.query(filled_in(expression)), expression


@pytest.mark.parametrize("record", RECORDS)
def test_a_recorded_series_is_there(record: str, prometheus: Prometheus) -> None:
    assert prometheus.until(record)


def test_prometheus_evaluates_every_rule(prometheus: Prometheus) -> None:
    groups = prometheus.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["name"] for rule in rules} == {*ALERTS, *RECORDS}
    assert {rule["health"] for rule in rules} == {"ok"}


def test_what_is_wrong_with_this_node_is_on_its_way_to_somebody(prometheus: Prometheus) -> None:
    expected = {
        "HamiCacheUnknownLayout", "HamiCacheDeadProcesses", "HamiContainerMemoryNearLimit",
        "HamiContainerOverLimit", "HamiCacheSliceDisagreement",
    }  # fmt: skip
    prometheus.until(f"count(count by (alertname) (ALERTS)) >= {len(expected)}")
    assert {one["metric"]["alertname"] for one in prometheus.query("ALERTS")} == expected
