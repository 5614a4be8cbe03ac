"""SARIF 2.1.0: every required property, every index and level as the standard has them."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from hami_cache.forensics import sarif
from hami_cache.forensics.anomalies import Diagnosis
from hami_cache.model import ANOMALY_KINDS
from hami_cache.testing import CacheBuilder
from tests.forensics.helpers import doctor


def sick(path: Path) -> Diagnosis:
    builder = CacheBuilder("v1.2").device(sm_limit=50).process(7, memory=[(1 << 64) - 5])
    return doctor(builder.process(8, status=0).write(path))


def test_a_log_has_everything_that_the_standard_requires(tmp_path: Path) -> None:
    found = sick(tmp_path / "x.cache")
    log = json.loads(json.dumps(sarif.log([found], [("gone", "gone: cannot open")], "1.2.3")))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("hami-cache", "1.2.3")
    assert [rule["id"] for rule in driver["rules"]] == list(ANOMALY_KINDS)
    assert all(
        rule["shortDescription"]["text"] and rule["help"]["text"] for rule in driver["rules"]
    )
    assert len(run["results"]) == len(found.findings)
    for result, finding in zip(run["results"], found.findings, strict=True):
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["ruleId"] == finding.anomaly.kind
        assert result["level"] in ("none", "note", "warning", "error")
        assert finding.anomaly.detail in result["message"]["text"]
        (location,) = result["locations"]
        physical = location["physicalLocation"]
        artifact = run["artifacts"][physical["artifactLocation"]["index"]]
        assert artifact["location"]["uri"] == physical["artifactLocation"]["uri"]
        assert physical["region"] == {"byteOffset": finding.offset}
        (logical,) = location["logicalLocations"]
        assert logical["fullyQualifiedName"] == finding.anomaly.where
    levels = {result["ruleId"]: result["level"] for result in run["results"]}
    assert levels == {"counter_underflow": "error", "exited_slot": "note"}


def test_a_file_that_could_not_be_opened_is_a_notification(tmp_path: Path) -> None:
    whole = sarif.log([sick(tmp_path / "x.cache")], [], "1")["runs"][0]["invocations"][0]
    assert whole == {"executionSuccessful": True, "toolExecutionNotifications": []}
    part = sarif.log([], [("gone", "gone: cannot open")], "1")["runs"][0]["invocations"][0]
    assert part["executionSuccessful"] is False
    (notification,) = part["toolExecutionNotifications"]
    assert (notification["level"], notification["message"]["text"]) == (
        "error",
        "gone: cannot open",
    )


def test_a_whole_file_has_no_region(tmp_path: Path) -> None:
    path = tmp_path / "x.cache"
    path.touch()
    (result,) = sarif.log([doctor(path)], [], "1")["runs"][0]["results"]
    (location,) = result["locations"]
    assert set(location) == {"physicalLocation"}
    assert set(location["physicalLocation"]) == {"artifactLocation"}


@pytest.mark.parametrize("name", ["a b.cache", "100%.cache", "ü.cache", "a:b.cache", "#?.cache"])
def test_names_are_uris(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / name, Path(name)):
        found = sick(path)
        uri = sarif.log([found], [], "1")["runs"][0]["artifacts"][0]["location"]["uri"]
        parsed = urlparse(uri)
        assert parsed.scheme == ("file" if path.is_absolute() else "")
        assert Path(unquote(parsed.path)) == path
        assert uri.isascii()


def test_a_finding_keeps_its_fingerprint_while_its_figures_change(tmp_path: Path) -> None:
    logs = [
        sarif.log([doctor(builder.write(tmp_path / "x.cache"))], [], "1")
        for builder in (
            CacheBuilder("v1.2").process(7, memory=[(1 << 64) - 5], monitorused=[1], sm_util=[1]),
            CacheBuilder("v1.2").process(7, memory=[(1 << 64) - 6], monitorused=[1], sm_util=[1]),
        )
    ]
    prints = [
        {r["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]: r["partialFingerprints"]
         for r in log["runs"][0]["results"]}
        for log in logs
    ]  # fmt: skip
    assert prints[0] == prints[1]
    assert len({json.dumps(p) for p in prints[0].values()}) == 2
