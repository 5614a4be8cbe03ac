"""A node's folder of container caches, with the pods that they belong to.

>>> from hami_cache.testing import CacheBuilder, container_tree
>>> tree = container_tree("/tmp/hook")
>>> tree.add("trainer-0", "main", CacheBuilder("v1.2").process(71, memory=[1 << 30]))
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hami_cache.testing.builder import CacheBuilder

Kind = Literal["init", "regular", "ephemeral"]

_LISTS: Mapping[Kind, str] = {
    "init": "initContainers",
    "regular": "containers",
    "ephemeral": "ephemeralContainers",
}


@dataclass
class TreePod:
    """A pod of the tree; change it freely and call `ContainerTree.save`."""

    name: str
    namespace: str
    uid: str
    node: str
    phase: str = "Running"
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    containers: dict[str, Kind] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The pod as the Kubernetes API writes it, as far as accounting looks."""
        spec: dict[str, Any] = {"nodeName": self.node}
        status: dict[str, Any] = {"phase": self.phase}
        for kind, key in _LISTS.items():
            names = [name for name, its in self.containers.items() if its == kind]
            if names or kind == "regular":
                spec[key] = [{"name": name} for name in names]
                status[f"{key.removesuffix('s')}Statuses"] = [
                    {"name": name, "containerID": f"containerd://{self.container_id(name)}"}
                    for name in names
                ]
        metadata = {
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
            "labels": self.labels,
            "annotations": self.annotations,
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": spec,
            "status": status,
        }

    def container_id(self, container: str) -> str:
        """The runtime's id of a container: made up, always the same, 64 hex digits."""
        return hashlib.sha256(f"{self.uid}/{container}".encode()).hexdigest()


class ContainerTree:
    """``<root>/containers/<podUID>_<container>/<file>.cache`` and ``<root>/pods.json`` beside it.

    Attributes:
        root: what HOOK_PATH names.
        pods_json: what ``kubectl get pods -A -o json`` would print; kept up to date by `add`.
        pods: by name.
    """

    def __init__(self, root: Path | str, node: str = "node-a") -> None:
        self.root = Path(root)
        self.node = node
        self.containers = self.root / "containers"
        self.pods_json = self.root / "pods.json"
        self.pods: dict[str, TreePod] = {}
        self.containers.mkdir(parents=True, exist_ok=True)
        self.save()

    def add(
        self,
        pod: str,
        container: str,
        cache: CacheBuilder | bytes | None = None,
        *,
        file: str = "x.cache",
        namespace: str = "default",
        uid: str | None = None,
        kind: Kind = "regular",
        phase: str = "Running",
    ) -> Path:
        """Add a container's directory with a cache file, and the container to its pod.

        Args:
            pod: a new or a known pod; `namespace`, `uid` and `phase` are taken for a new one only.
            container: its name; again for a second cache file of the same container.
            cache: what the file holds; None makes no file: the container has not started CUDA yet.
            file: the cache file's name.
            namespace: of the pod.
            uid: None makes one up from namespace and name, always the same.
            kind: in which of the pod's lists the container stands.
            phase: of the pod.

        Returns:
            The cache file's path, or the directory's where there is no file.
        """
        if pod not in self.pods:
            made_up = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{pod}.{namespace}"))
            self.pods[pod] = TreePod(pod, namespace, uid or made_up, self.node, phase)
        known = self.pods[pod]
        known.containers[container] = kind
        self.save()
        directory = self.directory(pod, container)
        directory.mkdir(exist_ok=True)
        if cache is None:
            return directory
        if isinstance(cache, CacheBuilder):
            return cache.write(directory / file)
        (directory / file).write_bytes(cache)
        return directory / file

    def directory(self, pod: str, container: str) -> Path:
        """The directory of a pod's container."""
        return self.containers / f"{self.pods[pod].uid}_{container}"

    def save(self) -> None:
        """Write `pods_json` from `pods`, in one step, so that a reader never sees half of it."""
        items = [pod.to_json() for pod in self.pods.values()]
        document = {"apiVersion": "v1", "kind": "List", "items": items}
        fresh = self.pods_json.with_suffix(".new")
        fresh.write_text(json.dumps(document, indent=2))
        fresh.replace(self.pods_json)


def container_tree(root: Path | str, node: str = "node-a") -> ContainerTree:
    """An empty tree under `root`, which becomes the node's HOOK_PATH.

    Args:
        root: made if need be.
        node: the name of the node on which the tree's pods run.
    """
    return ContainerTree(root, node)
