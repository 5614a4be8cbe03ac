"""The chart as a whole: what it refuses, what it says, what it packs."""

from __future__ import annotations

import json
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.deploy.needs import DEPLOY, ROOT, attempt, run
from tests.deploy.rendered import CHART, IMAGE, chart, container, daemonset

REPOSITORY = "registry.example.com/hami-cache"


def image(*values: str) -> str:
    """The image that the chart asks for."""
    return str(container(daemonset(chart(*values)))["image"])


def test_helm_lint_has_nothing_against_it() -> None:
    assert "0 chart(s) failed" in run("helm", "lint", "--strict", CHART, "--set", IMAGE)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([], "image.repository: build deploy/Dockerfile"),
        ([IMAGE, "mode=between"], "mode"),
        ([IMAGE, "hostproc=true"], "hostproc"),
        ([IMAGE, "nvml.enable=false"], "enable"),
        ([IMAGE, "port=99999"], "port"),
        ([IMAGE, "image.digest=latest"], "digest"),
        ([IMAGE, "serviceAccount.create=false"], "serviceAccount.name"),
        ([IMAGE, "podMonitor.enabled=true", "serviceMonitor.enabled=true"], "not both"),
    ],
)
def test_what_cannot_be_meant_is_refused(values: list[str], complaint: str) -> None:
    settings = [part for value in values for part in ("--set", value)]
    result = attempt("helm", "template", "x", CHART, *settings)
    assert result.returncode != 0
    assert complaint in result.stderr


def test_an_image_is_named_by_its_digest_before_its_tag() -> None:
    digest = "sha256:" + "ab" * 32
    assert image("image.tag=nightly", f"image.digest={digest}") == f"{REPOSITORY}@{digest}"
    assert image("image.tag=nightly") == f"{REPOSITORY}:nightly"


def test_its_version_is_the_programs() -> None:
    meta = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert meta["appVersion"] == meta["version"] == project["version"]
    assert image() == f"{REPOSITORY}:{project['version']}"


def test_the_schema_knows_exactly_the_values_that_there_are() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(schema["properties"]) == {*values, "global"}
    for name, value in values.items():
        if its := schema["properties"][name].get("properties"):
            assert set(its) == set(value), name


def test_rules_and_dashboard_in_the_cluster_are_the_files_here() -> None:
    manifests = chart("prometheusRule.enabled=true", "dashboard.enabled=true")
    (rules,) = (one for one in manifests if one["kind"] == "PrometheusRule")
    assert rules["spec"] == yaml.safe_load((DEPLOY / "prometheus" / "rules.yaml").read_text())
    (dashboard,) = (one for one in manifests if one["kind"] == "ConfigMap")
    assert json.loads(dashboard["data"]["hami-cache.json"]) == json.loads(
        (DEPLOY / "grafana" / "hami-cache.json").read_text()
    )


def test_a_packed_chart_has_the_files_and_not_links_to_them(tmp_path: Path) -> None:
    run("helm", "package", CHART, "--destination", tmp_path)
    (packed,) = tmp_path.glob("*.tgz")
    with tarfile.open(packed) as archive:
        for name in ("rules.yaml", "dashboard.json"):
            member = archive.getmember(f"hami-cache/files/{name}")
            assert member.isfile()
            assert member.size > 1000


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([], "select one by the label job"),
        (["mode=instead"], "two feedback loops"),
        (["podMonitor.enabled=true"], "runs beside"),
    ],
)
def test_the_notes_say_what_to_look_out_for(values: list[str], says: str) -> None:
    settings = [part for value in (IMAGE, *values) for part in ("--set", value)]
    text = run("helm", "install", "hami-cache", CHART, "--dry-run=client", *settings)
    assert says in text.partition("NOTES:")[2]
    assert ("Nothing scrapes it yet" in text) is ("podMonitor.enabled=true" not in values)
