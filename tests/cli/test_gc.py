"""``hami-cache gc``: what would be removed, and that nothing is."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from hami_cache.cli.main import main
from hami_cache.monitor.reaper import GONE
from hami_cache.testing import CacheBuilder, ContainerTree, container_tree

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def tree(tmp_path: Path) -> ContainerTree:
    """A pod that is there, one that is gone from the list, and a directory that is too young."""
    tree = container_tree(tmp_path / "hook")
    for name in ("here", "gone"):
        tree.add(name, "main", CacheBuilder("v1.2").process(7), uid=name)
    tree.add("young", "main", uid="young")
    (tree.containers / "lost+found").mkdir()
    past = time.time() - 3600
    for path in tree.containers.rglob("*"):
        os.utime(path, (past, past))
    os.utime(tree.directory("young", "main"))
    for name in ("gone", "young"):
        del tree.pods[name]
    tree.save()
    return tree


def test_json_gives_every_entry_its_action_and_reason(tree: ContainerTree, capsys: Capture) -> None:
    before = sorted(tree.root.rglob("*"))
    code = main(["gc", str(tree.root), "--pods", f"file:{tree.pods_json}", "--dry-run", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == 0 and document["root"] == str(tree.containers)
    found = {r["name"]: (r["action"], r["reason"]) for r in document["rulings"]}
    young = found.pop("young_main")
    assert young[0] == "kept" and young[1].endswith("s ago, not yet 300")
    assert found == {
        "gone_main": ("would_remove", GONE),
        "here_main": ("kept", "its pod is known"),
        "lost+found": (
            "kept", "no container's directory: the name is not <podUID>_<container>"
        ),
    }  # fmt: skip
    assert sorted(tree.root.rglob("*")) == before


def test_people_see_a_table(
    tree: ContainerTree, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAMI_RESYNC_INTERVAL", "2h")
    main(["gc", str(tree.containers), "--pods", f"file:{tree.pods_json}", "--dry-run"])
    out = capsys.readouterr().out
    (line,) = (line for line in out.splitlines() if "gone_main" in line)
    assert line.split()[1] == "kept" and "not yet 7200" in line


def test_without_a_list_that_can_tell_nothing_would_go(
    tree: ContainerTree, capsys: Capture
) -> None:
    assert main(["gc", str(tree.root), "--pods", "none", "--dry-run", "--json"]) == 0
    rulings = json.loads(capsys.readouterr().out)["rulings"]
    assert {r["action"] for r in rulings} == {"refused", "kept"}
    tree.pods.clear()
    tree.save()
    main(["gc", str(tree.root), "--pods", f"file:{tree.pods_json}", "--dry-run", "--json"])
    rulings = json.loads(capsys.readouterr().out)["rulings"]
    assert {r["action"] for r in rulings} == {"refused", "kept"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{root}"], "only the monitor removes directories; say --dry-run"),
        (["{root}", "--dry-run", "--resync", "x"], "'x' is not a duration"),
        (["{root}", "--dry-run", "--resync", "-5m"], "--resync: '-5m' is no time to wait"),
        (["{root}/nowhere", "--dry-run"], "nowhere: no container directories there"),
        (["{root}", "--dry-run", "--pods", "file:/nowhere"], "/nowhere: cannot read the pod list"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str], message: str, tree: ContainerTree, capsys: Capture
) -> None:
    assert main(["gc", *(a.format(root=tree.root) for a in arguments)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and len(captured.err.splitlines()) == 1
    assert (tree.containers / "gone_main").is_dir()
