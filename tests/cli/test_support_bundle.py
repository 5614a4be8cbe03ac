"""``hami-cache support-bundle``: what a maintainer needs, and nothing of any tenant."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from hami_cache.cli import reference, support_caches
from hami_cache.cli.main import main
from hami_cache.cli.support_archive import ABOUT, FOLDER
from hami_cache.model import ANOMALY_KINDS, Severity
from hami_cache.spec import registry
from hami_cache.testing import CacheBuilder, ContainerTree, Memory, container_tree

Capture = pytest.CaptureFixture[str]

UID = "5ec4e7aa-dead-4bad-8bad-0123456789ab"
SECRETS = (
    UID, "5ec4e7aa", "payroll", "team-secret", "trainer-xyz", "GPU-c0ffee", "c0ffee", "9876501",
    "9876502", "9876503", "1234567890", "hidden.cache", "stray-dir", "secretfile",
)  # fmt: skip
"""Whatever a tenant of the node below chose or used, or what tells one of them."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOOK_PATH", "HAMI_CACHE_LAYOUTS", "NODE_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def tree(tmp_path: Path) -> ContainerTree:
    """Caches with every kind of thing to hide, wherever it might be quoted."""
    tree = container_tree(tmp_path / "hook")
    full = CacheBuilder("v1.2").device("GPU-c0ffee-1", limit=1234567890)
    full.process(9876501, 9876502, memory=[1234567890 * 2], seqlock=3)
    full.process(9876501, 9876502, memory=[Memory(total=2**64 - 1234567890)])
    full.process(9876503, 0, status=7).set("priority", -9876503).set("owner_pid", 9876503)
    full.set("last_kernel_time", 9876503000)
    tree.add("trainer-xyz", "payroll", full, namespace="team-secret", uid=UID, file="hidden.cache")
    whole = CacheBuilder("v1-sem").device("GPU-c0ffee-2").process(9876501, memory=[5]).build()
    tree.add("cut", "payroll", whole[:1_000_000], namespace="team-secret", file="hidden.cache")
    tree.add("text", "payroll", b"c0ffee and GPU-c0ffee" * 99, file="hidden.cache")
    odd = CacheBuilder("v1").device("c0ffee\x1b").build()
    tree.add("odd", "payroll", odd, file="hidden.cache")
    (tree.directory("odd", "payroll") / "linked.cache").symlink_to("/etc/secretfile")
    (tree.containers / "stray-dir").mkdir()
    return tree


def bundle(*arguments: object) -> dict[str, bytes]:
    """Run it, and open the archive."""
    target = Path("bundle.tar.gz")
    target.unlink(missing_ok=True)
    assert main(["support-bundle", "-o", str(target), *map(str, arguments)]) == 0
    with tarfile.open(target) as archive:
        members = archive.getmembers()
        assert all(member.isfile() and member.uid == 0 for member in members)
        found = {}
        for member in members:
            file = archive.extractfile(member)
            assert file is not None
            found[member.name.removeprefix(f"{FOLDER}/")] = file.read()
        return found


def documents(*arguments: object) -> dict[str, Any]:
    found = bundle(*arguments)
    return {name: json.loads(found[name]) for name in ABOUT}


def everything(found: dict[str, bytes]) -> str:
    return "\n".join(content.decode() for content in found.values())


def test_nothing_of_a_tenant_is_inside_or_said(tree: ContainerTree, capfd: Capture) -> None:
    found = bundle("--hook-path", tree.root, *tree.containers.rglob("hidden.cache"))
    text = everything(found) + "".join(capfd.readouterr())
    assert [secret for secret in SECRETS if secret in text] == []
    assert "No tenants' data" in text


def test_every_text_about_caches_is_of_our_own_vocabulary(tree: ContainerTree) -> None:
    """Whatever is added later: texts are names of ours, or places in a struct."""
    found = documents("--hook-path", tree.root, *tree.containers.rglob("*.cache"))
    ours = {
        *registry.layouts(), *ANOMALY_KINDS, *get_args(Severity),
        "identified", "ambiguous", "mixed", "not_initialised", "unknown",
        "ready", "empty", "unknown_layout", "unreadable", "irregular", "pending",
        "1.0", "1.1", "1.2", "SourceError",
    }  # fmt: skip
    probes = {probe.kind for one in registry.layouts().values() for probe in one.identity.probes}
    kinds = {"size", "magic", "version", *probes}
    place = re.compile(r"(\w+(\[\d+\])?(\.\w+(\[\d+\])?)*)?")
    for path, text in texts([found["containers.json"], found["caches.json"]]):
        if path[-1] == "where":
            assert place.fullmatch(text), path
        else:
            assert text in (kinds if path[-2:] == ("evidence", "kind") else ours), path


def texts(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every text in a document, with the names that lead to it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from texts(inner, (*path, name))
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner, path)
    elif isinstance(value, str):
        yield path, value


def test_a_maintainer_finds_what_they_need(tree: ContainerTree) -> None:
    found = documents("--hook-path", tree.root)
    assert found["versions.json"]["hami-cache"] and found["versions.json"]["packages"]["numpy"]
    assert found["versions.json"]["native reader"].endswith(".so")
    assert found["environment.json"]["kernel"] and found["environment.json"]["libc"]
    assert set(found["environment.json"]["variables"]) == set(reference.variables())
    assert found["environment.json"]["variables"]["HOOK_PATH"] is False
    assert [one["name"] for one in found["layouts.json"]] == list(registry.layouts())
    assert all(one["built_in"] and len(one["sha256"]) == 64 for one in found["layouts.json"])
    node = found["node.json"]
    assert (node["found_at"], node["containers"]) == ("containers", 4)
    assert node["skipped"] == {"the name is not <podUID>_<container>": 1}
    assert node["files"] == {"ready": 2, "unknown_layout": 2, "irregular": 1}
    assert set(node["driver"]) == {"up", "reason", "unreadable_cards", "cards"}
    containers = found["containers.json"]
    assert [one["container"] for one in containers] == [1, 2, 3, 4]
    [full] = [one for one in containers if "stuck_seqlock" in one["anomalies"]]
    assert (full["layout"], full["header_version"], full["state"]) == ("v1.2", "1.2", "ready")
    files = {one["container"]: one for one in found["caches.json"]["files"] if "error" not in one}
    cache = files[full["container"]]
    assert (cache["verdict"], cache["layout"], cache["state"]) == ("identified", "v1.2", "ready")
    best = cache["candidates"][0]
    assert best["layout"] == "v1.2" and {"kind": "size", "supports": True} in best["evidence"]
    places = {(one["kind"], one["where"]) for one in cache["anomalies"]}
    assert ("stuck_seqlock", "procs[0].seqlock") in places
    assert ("counter_underflow", "procs[1].used[0].total") in places
    cut = [one for one in files.values() if one["size"] == 1_000_000]
    assert [one["verdict"] for one in cut] == ["unknown"]
    irregular = [one for one in found["caches.json"]["files"] if one.get("error")]
    assert [(one["state"], one["error"]) for one in irregular] == [("irregular", "SourceError")]


def test_tenants_data_is_there_when_it_is_asked_for(tree: ContainerTree, capsys: Capture) -> None:
    found = bundle("--hook-path", tree.root, "--include-tenant-data")
    text = everything(found)
    asked_for = (UID, "payroll", "GPU-c0ffee-1", "9876502", "hidden.cache")
    assert [name for name in asked_for if name not in text] == []
    assert found["README.txt"].decode().count("TENANTS' DATA IS INSIDE") == 1
    assert "TENANTS' DATA IS INSIDE" in capsys.readouterr().out


def test_files_by_themselves_and_nothing_at_all(tmp_path: Path) -> None:
    path = CacheBuilder("v1").process(7).write(tmp_path / "x.cache")
    [only] = documents(path)["caches.json"]["files"]
    assert (only["file"], only["container"], only["state"], only["layout"]) == (1, None, None, "v1")
    empty = documents()
    assert empty["caches.json"] == {"files": [], "left_out": 0}
    assert empty["containers.json"] == [] and set(empty["node.json"]) == {"driver"}


def test_dead_processes_are_counted_where_the_hosts_proc_is_known(
    tree: ContainerTree, tmp_path: Path
) -> None:
    proc = tmp_path / "proc"
    (proc / "1").mkdir(parents=True)
    found = documents("--hook-path", tree.root, "--host-proc", proc)
    states = [one.get("processes", {}) for one in found["caches.json"]["files"]]
    assert {"dead": 1, "unknown": 1} in states or {"dead": 2} in states


def test_it_is_bounded_and_says_what_it_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support_caches, "MAX_CACHES", 2)
    monkeypatch.setattr(support_caches, "MAX_FINDINGS", 3)
    crowd = CacheBuilder("v1.2")
    for pid in range(1, 9):
        crowd.process(pid, memory=[1], seqlock=5)
    path = crowd.write(tmp_path / "x.cache")
    found = documents(path, path, path)["caches.json"]
    assert (len(found["files"]), found["left_out"]) == (2, 1)
    assert len(found["files"][0]["anomalies"]) == 3
    assert found["files"][0]["anomalies_left_out"] >= 5


def test_what_is_inside_is_printed_and_for_its_owner_only(capsys: Capture) -> None:
    inside = bundle()
    title, *lines, last = capsys.readouterr().out.splitlines()
    assert title == "bundle.tar.gz:"
    assert [line.split()[0] for line in lines] == ["README.txt", *ABOUT] == list(inside)
    assert [int(line.split()[1]) for line in lines] == [len(content) for content in inside.values()]
    assert last.startswith("No tenants' data")
    assert stat.S_IMODE(Path("bundle.tar.gz").stat().st_mode) == 0o600
    assert main(["support-bundle"]) == 0
    [made] = Path().glob("hami-cache-support-*Z.tar.gz")
    assert made.stat().st_size < 100_000


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-o", "here"], "here: cannot be made: File exists; give another --output"),
        (["-o", "no/where"], "no/where: cannot be made: No such file or directory"),
        (["--hook-path", "here"], "here: no container directories there"),
        (["--host-proc", "here"], "here: is not a directory"),
        (["--layouts", "nowhere"], "nowhere: cannot list the folder of layouts"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments: list[str], says: str, capsys: Capture) -> None:
    Path("here").touch()
    assert main(["support-bundle", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err and err.count("\n") == 1
    assert Path("here").stat().st_size == 0


def test_a_broken_installation_can_be_reported() -> None:
    program = (
        "import sys; sys.modules['hami_cache._reader'] = None\n"
        "from hami_cache.cli.main import main\n"
        "sys.exit(main(['support-bundle', '-o', 'broken.tar.gz']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    with tarfile.open("broken.tar.gz") as archive:
        versions = archive.extractfile(f"{FOLDER}/versions.json")
        assert versions is not None
        assert "missing: reinstall" in json.load(versions)["native reader"]
