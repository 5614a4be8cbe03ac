"""docs/deploy.md and the files that it speaks of: every alert, mount, path, value and example."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.needs import DEPLOY, ROOT, run
from tests.deploy.rendered import CHART, IMAGE, VARIANTS, container, own_daemonsets
from tests.deploy.rules import ALERTS
from tests.deploy.test_manifests import VERSIONS
from tests.docs.examples import blocks, examples

PAGE = ROOT / "docs" / "deploy.md"
TEXT = PAGE.read_text()
YAML: list[Any] = [yaml.safe_load(b.text) for b in blocks(PAGE) if b.language == "yaml"]


def yaml_with(key: str) -> Any:
    """The one YAML example with that key."""
    (found,) = (one for one in YAML if key in (one if isinstance(one, dict) else set().union(*one)))
    return found


def test_every_alert_is_explained_under_its_name_with_its_severity() -> None:
    explained = dict(re.findall(r"^### (Hami\w+)\n\n\*\*(\w+)", TEXT, re.MULTILINE))
    assert explained == {name: rule["labels"]["severity"] for name, rule in ALERTS.items()}


def test_every_mount_is_explained() -> None:
    explained = set(re.findall(r"^\| `(/[\w/-]+)` \|", TEXT, re.MULTILINE))
    mounted = {
        one["mountPath"] for _, own in own_daemonsets() for one in container(own)["volumeMounts"]
    }
    assert explained == mounted


def test_paths_that_pages_name_exist() -> None:
    pages = [PAGE, ROOT / "docs" / "replace-vgpumonitor.md"]
    path = re.compile(r"(?<![\w/-])(?:tests/)?deploy/[\w/.-]*\w")
    named = {found for page in pages for found in path.findall(page.read_text())}
    named |= {f"deploy/{row}" for row in re.findall(r"^\| `(\w[\w/.-]+)`", TEXT, re.MULTILINE)}
    assert [one for one in sorted(named) if not (ROOT / one).exists()] == []


def test_what_it_says_of_its_tests_is_so() -> None:
    assert f"in {len(VARIANTS)} variants" in TEXT
    assert f"Kubernetes {' and '.join(VERSIONS)}" in TEXT
    tools = (ROOT / "tests" / "deploy" / "kube-tools.txt").read_text()
    for version in re.findall(r"(?:Helm|kubectl|kustomize) ([\d.]+\d)", TEXT):
        assert version in tools


def chart_commands() -> list[list[str]]:
    """The settings of every helm command of ours that a page shows."""
    pages = [PAGE, ROOT / "docs" / "replace-vgpumonitor.md"]
    steps = [
        step.command for page in pages for one in examples(page) if not one.is_python
        for step in one.steps()
    ]  # fmt: skip
    words = [shlex.split(step) for step in steps if "deploy/helm/hami-cache" in step]
    return [[part for part in command if "=" in part] for command in words]


def test_the_commands_of_the_pages_render() -> None:
    commands = chart_commands()
    assert len(commands) >= 3
    for values in commands:
        settings = [part for value in (IMAGE, *values) for part in ("--set", value)]
        assert "kind: DaemonSet" in run("helm", "template", "hami-cache", CHART, *settings)


def test_the_values_that_the_page_shows_render(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(yaml_with("podMonitor")))
    text = run("helm", "template", "hami-cache", CHART, "--set", IMAGE, "--values", values)
    (monitor,) = (one for one in yaml.safe_load_all(text) if one["kind"] == "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["honorLabels"] is True
    assert endpoint["basicAuth"]["username"] == {"name": "hami-cache-scrape", "key": "user"}
    assert endpoint["tlsConfig"]["ca"]["secret"]["name"] == "hami-cache-web"


def test_the_kustomization_that_the_page_shows_builds(tmp_path: Path) -> None:
    shown = yaml_with("components")
    here = os.path.relpath(DEPLOY, tmp_path)
    for key in ("resources", "components"):
        shown[key] = [one.replace("hami-cache/deploy", here) for one in shown[key]]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(shown))
    text = run("kubectl", "kustomize", tmp_path)
    assert "image: registry.example.com/hami-cache:0.1.0" in text
    assert "kind: PodMonitor" in text


def test_prometheus_takes_the_scrape_configuration_that_the_page_shows(tmp_path: Path) -> None:
    shown = yaml_with("job_name")
    # Debian builds Prometheus without discovery in Kubernetes.
    assert shown[0].pop("kubernetes_sd_configs") == [{"role": "pod"}]
    config = tmp_path / "prometheus.yml"
    config.write_text(yaml.safe_dump({"scrape_configs": shown}))
    assert "SUCCESS" in run("promtool", "check", "config", config)
    expression = ALERTS["HamiCacheMonitorDown"]["expr"]
    (pattern,) = re.findall(r'job=~"([^"]+)"', expression)
    assert re.fullmatch(pattern, shown[0]["job_name"])


@pytest.mark.parametrize("alert", ALERTS)
def test_an_explanation_says_what_to_do(alert: str) -> None:
    section = TEXT.partition(f"### {alert}\n")[2].partition("\n#")[0]
    assert len(section.split()) >= 25, "too short to help anybody at night"
