"""Pods from JSON, from a file and from the kubelet's log directories."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.errors import ConfigError
from hami_cache.node.pods import FilePods, NoPods, Owner, Pod, PodContainer, PodLogPods, PodSource
from tests.node.api_server import pod_json

ANY_TEXT = st.text(st.characters())
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT
MEMBERS = st.sampled_from(
    [
        *("metadata", "spec", "status", "uid", "name", "namespace", "labels", "annotations"),
        *("ownerReferences", "kind", "apiVersion", "controller", "nodeName", "phase"),
        *("containers", "initContainers", "ephemeralContainers", "containerStatuses"),
        *("containerID", "initContainerStatuses", "ephemeralContainerStatuses"),
    ]
)
ANY_JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(MEMBERS | ANY_TEXT, inner),
    max_leaves=40,
)
PODLIKE = st.fixed_dictionaries(
    {}, optional={key: st.dictionaries(MEMBERS, ANY_JSON) for key in ("metadata", "spec", "status")}
)


def texts(pod: Pod) -> list[str]:
    """Every text in a pod."""
    found = [pod.uid, pod.name, pod.namespace, pod.node, pod.phase]
    for mapping in (pod.labels, pod.annotations):
        found += [*mapping.keys(), *mapping.values()]
    for owner in pod.owners:
        found += [owner.kind, owner.api_version, owner.uid]
    for container in pod.containers:
        found += [container.name, container.container_id]
    return found


@given(PODLIKE)
def test_any_json_makes_a_pod_of_printable_texts(obj: dict[str, Any]) -> None:
    pod = Pod.from_json(obj)
    for text in texts(pod):
        assert isinstance(text, str)
        text.encode("utf-8")
    assert all(container.name for container in pod.containers)


def test_a_pod_is_reduced_to_what_accounting_needs() -> None:
    obj = pod_json("u", init=("setup",), containers=("main", "side"), ephemeral=("debug",))
    obj["metadata"]["ownerReferences"] = [
        {"kind": "Instance", "apiVersion": "g/v1", "uid": "o", "controller": True},
        {"kind": "Job", "apiVersion": "batch/v1", "uid": "p", "controller": "yes"},
    ]
    obj["status"]["initContainerStatuses"] = [{"name": "setup", "containerID": "docker://abc"}]
    obj["status"]["ephemeralContainerStatuses"] = [{"name": "debug", "containerID": "bare"}]
    pod = Pod.from_json(obj)
    assert (pod.uid, pod.name, pod.namespace) == ("u", "pod-u", "default")
    assert (pod.node, pod.phase, pod.ended) == ("node-a", "Running", False)
    assert pod.owners == (
        Owner("Instance", "g/v1", "o", True),
        Owner("Job", "batch/v1", "p", False),
    )
    assert pod.containers == (
        PodContainer("setup", "init", "abc"),
        PodContainer("main", "regular", "u-main"),
        PodContainer("side", "regular", "u-side"),
        PodContainer("debug", "ephemeral", "bare"),
    )
    assert pod.container("side") == PodContainer("side", "regular", "u-side")
    assert pod.container("nobody") is None


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", "", "Succeeded", "Failed"])
def test_ended(phase: str) -> None:
    assert Pod.from_json(pod_json("u", phase=phase)).ended == (phase in ("Succeeded", "Failed"))


def test_members_of_the_wrong_type_are_missing() -> None:
    obj: dict[str, Any] = {
        "metadata": {"uid": 7, "labels": {"a": 1, "b": "x", "c": "\ud800"}, "annotations": []},
        "spec": {"nodeName": None, "containers": [{"name": "ok"}, {"name": ""}, 3, {}]},
        "status": [],
    }
    assert Pod.from_json(obj) == Pod(
        uid="",
        name="",
        namespace="",
        labels={"b": "x"},
        containers=(PodContainer("ok", "regular"),),
    )


def test_the_copy_that_kubectl_keeps_of_an_object_is_not_kept() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "hami.io/x": "y"}
    pod = Pod.from_json(pod_json("u", annotations=annotations))
    assert pod.annotations == {"hami.io/x": "y"}


def test_no_pods_name_nothing_and_condemn_nothing() -> None:
    source: PodSource = NoPods()
    view = source.view()
    source.close()
    assert view.known
    assert not view.authoritative
    assert not view.fresh


# From a file


def write(path: Path, *pods: dict[str, Any]) -> Path:
    """Replace the file, as whoever writes it should."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"kind": "List", "items": list(pods)}))
    fresh.replace(path)
    return path


def test_a_file_of_pods_is_known_and_never_fresh(tmp_path: Path) -> None:
    path = write(tmp_path / "pods.json", pod_json("a"), pod_json("b", node="node-b"), {})
    source: PodSource = FilePods(path)
    view = source.view()
    source.close()
    assert set(view.pods) == {"a", "b"}
    assert view.known
    assert not view.fresh


def test_only_the_pods_of_the_node_are_taken_from_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "pods.json", pod_json("a"), pod_json("b", node="node-b"))
    assert set(FilePods(path, "node-b").view().pods) == {"b"}


def test_a_file_is_read_again_when_it_changes_and_not_before(tmp_path: Path) -> None:
    path = write(tmp_path / "pods.json", pod_json("a"))
    source = FilePods(path)
    assert source.view() is source.view()
    write(path, pod_json("b"))
    assert set(source.view().pods) == {"b"}


@pytest.mark.parametrize("damage", ["", "{", '{"items":{}}', "gone"])
def test_a_file_that_turns_bad_leaves_its_last_good_version(tmp_path: Path, damage: str) -> None:
    path = write(tmp_path / "pods.json", pod_json("a"))
    source = FilePods(path)
    if damage == "gone":
        path.unlink()
    else:
        path.write_text(damage)
    assert set(source.view().pods) == {"a"}
    write(path, pod_json("b"))
    assert set(source.view().pods) == {"b"}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[]", b"7", b'{"items":{}}', b"[" * 100_000, b"1" * 10_000],
)
def test_a_file_that_is_bad_from_the_start_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pods.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="kubectl get pods") as raised:
        FilePods(path)
    assert raised.value.path == str(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        FilePods(tmp_path / "nothing.json")


@given(ANY_JSON)
def test_any_json_in_the_list_is_survived(tmp_path_factory: Any, item: Any) -> None:
    path = tmp_path_factory.mktemp("pods") / "pods.json"
    path.write_text(json.dumps({"items": [item, pod_json("a")]}))
    assert "a" in FilePods(path).view().pods


# From the kubelet's log directories


def test_log_directories_name_pods_and_condemn_none(tmp_path: Path) -> None:
    (tmp_path / "ns_web-0_uid-1" / "main").mkdir(parents=True)
    (tmp_path / "ns_web-0_uid-1" / "setup").mkdir()
    (tmp_path / "ns_web-0_uid-1" / "a-file").touch()
    (tmp_path / "ns_web-1_uid-2").mkdir()
    source: PodSource = PodLogPods(tmp_path)
    view = source.view()
    source.close()
    names = tuple(PodContainer(name, "regular") for name in ("main", "setup"))
    assert view.pods == {
        "uid-1": Pod(uid="uid-1", name="web-0", namespace="ns", containers=names),
        "uid-2": Pod(uid="uid-2", name="web-1", namespace="ns"),
    }
    assert view.known
    assert not view.fresh
    assert not view.authoritative


def test_other_names_in_the_log_directory_are_passed_over(tmp_path: Path) -> None:
    for name in ("lost+found", "a_b", "a_b_c_d", "_b_c", "a__c", "a_b_"):
        (tmp_path / name).mkdir()
    (tmp_path / "ns_file_uid").touch()
    (tmp_path / "ns_link_uid").symlink_to(tmp_path / "a_b")
    (tmp_path / os.fsdecode(b"ns_\xff_uid")).mkdir()
    assert PodLogPods(tmp_path).view().pods == {}


def test_without_the_log_directory_nothing_is_known(tmp_path: Path) -> None:
    view = PodLogPods(tmp_path / "nothing").view()
    assert not view.known
    assert not view.authoritative
