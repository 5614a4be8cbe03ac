"""The tree of container directories and the pods beside it."""

from __future__ import annotations

import json
from pathlib import Path

from hami_cache import identify
from hami_cache.node.pods import FilePods
from hami_cache.testing import CacheBuilder, container_tree


def test_directories_and_pods_belong_together(tmp_path: Path) -> None:
    tree = container_tree(tmp_path / "hook", node="gpu-1")
    cache = CacheBuilder("v1.2").process(71, memory=[1 << 30])
    first = tree.add("trainer", "main", cache, namespace="ml", uid="uid-1")
    tree.add("trainer", "main", cache.build(), file="second.cache")
    tree.add("trainer", "warmup", kind="init")
    tree.add("notebook", "main", phase="Succeeded")

    assert first == tmp_path / "hook" / "containers" / "uid-1_main" / "x.cache"
    assert first.read_bytes() == first.with_name("second.cache").read_bytes()
    assert identify(first).verdict == "identified"
    assert tree.directory("trainer", "warmup").is_dir()
    assert not [*tree.directory("trainer", "warmup").iterdir()]

    pods = FilePods(tree.pods_json, node="gpu-1").view().pods
    trainer = pods["uid-1"]
    assert (trainer.name, trainer.namespace, trainer.phase) == ("trainer", "ml", "Running")
    assert [(c.name, c.kind) for c in trainer.containers] == [
        ("warmup", "init"),
        ("main", "regular"),
    ]
    assert all(len(c.container_id) == 64 for c in trainer.containers)
    notebook = next(pod for pod in pods.values() if pod.name == "notebook")
    assert notebook.ended
    assert {d.name for d in tree.containers.iterdir()} == {
        "uid-1_main", "uid-1_warmup", f"{notebook.uid}_main",
    }  # fmt: skip


def test_a_changed_pod_is_saved_and_nothing_else_lies_about(tmp_path: Path) -> None:
    tree = container_tree(tmp_path)
    tree.add("trainer", "main")
    tree.pods["trainer"].annotations["hami.io/vgpu-node"] = "gpu-1"
    tree.save()
    (item,) = json.loads(tree.pods_json.read_text())["items"]
    assert item["metadata"]["annotations"] == {"hami.io/vgpu-node": "gpu-1"}
    assert {p.name for p in tmp_path.iterdir()} == {"containers", "pods.json"}
