"""Pods: what the cluster says runs on this node.

A `PodSource` hands out the newest `PodView` it has and never blocks: a scrape costs no API call.
The sources that need no cluster live here; the API server's is in `cluster.py`, behind the same
protocol.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from hami_cache.errors import ConfigError

ContainerKind = Literal["init", "regular", "ephemeral"]

ENDED_PHASES = frozenset({"Succeeded", "Failed"})
"""Pod phases whose containers run no more: such pods are not exported."""

# A copy of the whole object: the largest annotation by far, and nobody here reads it.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Owner:
    """One ownerReference of a pod."""

    kind: str
    api_version: str
    uid: str
    controller: bool


@dataclass(frozen=True, slots=True)
class PodContainer:
    """A container of a pod.

    `container_id` is the runtime's id without its ``containerd://`` prefix, "" while there is none.
    """

    name: str
    kind: ContainerKind
    container_id: str = ""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, reduced to what accounting needs.

    `containers` has the init containers first, then the regular ones, then the ephemeral ones.
    """

    uid: str
    name: str
    namespace: str
    node: str = ""
    phase: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[Owner, ...] = ()
    containers: tuple[PodContainer, ...] = ()

    @property
    def ended(self) -> bool:
        """The pod is over (Succeeded or Failed), though its object may still exist."""
        return self.phase in ENDED_PHASES

    def container(self, name: str) -> PodContainer | None:
        """The container of that name, in whichever of the three lists it stands."""
        return next((c for c in self.containers if c.name == name), None)

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Pod:
        """Read a pod as the Kubernetes API writes it (core/v1 Pod).

        Members of an unexpected type are taken as missing: the object came from outside. So is a
        text without a UTF-8 form (JSON can spell a lone surrogate), which nobody could print.
        """
        meta, spec, status = (_mapping(obj.get(key)) for key in ("metadata", "spec", "status"))
        annotations = _texts(meta.get("annotations"))
        annotations.pop(_LAST_APPLIED, None)
        ids: dict[str, str] = {}
        for key in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
            for entry in _mappings(status.get(key)):
                ids[_text(entry.get("name"))] = _text(entry.get("containerID")).rpartition("://")[2]
        lists: tuple[tuple[ContainerKind, str], ...] = (
            ("init", "initContainers"),
            ("regular", "containers"),
            ("ephemeral", "ephemeralContainers"),
        )
        containers = tuple(
            PodContainer(name, kind, ids.get(name, ""))
            for kind, key in lists
            for entry in _mappings(spec.get(key))
            if (name := _text(entry.get("name")))
        )
        owners = tuple(
            Owner(
                kind=_text(ref.get("kind")),
                api_version=_text(ref.get("apiVersion")),
                uid=_text(ref.get("uid")),
                controller=ref.get("controller") is True,
            )
            for ref in _mappings(meta.get("ownerReferences"))
        )
        return cls(
            uid=_text(meta.get("uid")),
            name=_text(meta.get("name")),
            namespace=_text(meta.get("namespace")),
            node=_text(spec.get("nodeName")),
            phase=_text(status.get("phase")),
            labels=_texts(meta.get("labels")),
            annotations=annotations,
            owners=owners,
            containers=containers,
        )


@dataclass(frozen=True, slots=True)
class PodView:
    """What a source knows at one moment.

    Attributes:
        pods: by pod UID.
        known: there has been a complete list; before that, "no pod" means nothing.
        fresh: the list is complete, current, not empty, and was selected by a certain node name:
            the only state in which a missing pod may be taken as gone.
        authoritative: False where the source can only name directories and a pod that is missing
            means nothing: its containers are exported all the same, under their directory's UID.
    """

    pods: Mapping[str, Pod] = field(default_factory=dict)
    known: bool = False
    fresh: bool = False
    authoritative: bool = True


class PodSource(Protocol):
    """Where pods come from. `view` returns at once, with the newest knowledge, and never raises."""

    def view(self) -> PodView:
        """The newest view."""
        ...

    def close(self) -> None:
        """Stop background work."""
        ...


class NoPods:
    """No source at all: containers are exported under their directory's pod UID."""

    def view(self) -> PodView:
        """An empty, known, never authoritative view."""
        return PodView(known=True, authoritative=False)

    def close(self) -> None:
        """Nothing runs."""


class FilePods:
    """The JSON that ``kubectl get pods -A -o json`` prints, re-read when the file changes.

    Args:
        path: the file.
        node: keep only this node's pods (`spec.nodeName`); "" keeps all.

    Raises:
        ConfigError: the file cannot be read or is not a pod list, at construction only; a later bad
            version keeps the last good one.
    """

    def __init__(self, path: Path, node: str = "") -> None:
        self._path = path
        self._node = node
        self._stamp = self._stat()
        self._view = self._load()

    def _stat(self) -> tuple[int, int, int]:
        try:
            stat = self._path.stat()
        except OSError:
            return (0, 0, 0)
        return (stat.st_ino, stat.st_size, stat.st_mtime_ns)

    def _load(self) -> PodView:
        hint = "give the output of: kubectl get pods -A -o json"
        try:
            document = json.loads(self._path.read_bytes())
        except OSError as error:
            raise ConfigError(
                f"cannot read the pod list: {error.strerror}", path=self._path, hint=hint
            ) from None
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"the pod list is not JSON: {error}", path=self._path, hint=hint
            ) from None
        items = document.get("items") if isinstance(document, dict) else None
        if not isinstance(items, list):
            raise ConfigError("the pod list has no `items` list", path=self._path, hint=hint)
        pods = [Pod.from_json(item) for item in items if isinstance(item, dict)]
        kept = {p.uid: p for p in pods if p.uid and (not self._node or p.node == self._node)}
        # No pod at all for this node is more likely a wrong node name than an empty node.
        return PodView(pods=kept, known=True, fresh=False, authoritative=bool(kept))

    def view(self) -> PodView:
        """The file as it is now, or its last good version."""
        stamp = self._stat()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._view = self._load()
            except ConfigError:
                return self._view
        return self._view

    def close(self) -> None:
        """Nothing runs."""


class PodLogPods:
    """Pod names from the kubelet's log directories ``<namespace>_<pod>_<uid>/<container>``.

    They need no API access, but they outlive their pods for a while: never a reason to delete.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def view(self) -> PodView:
        """One pass over the directory; names that do not fit are passed over."""
        names = _directories(self._root)
        if names is None:
            return PodView(authoritative=False)
        pods: dict[str, Pod] = {}
        for directory in names:
            parts = directory.split("_")
            if len(parts) != 3 or not all(parts):
                continue
            namespace, name, uid = parts
            containers = tuple(
                PodContainer(child, "regular")
                for child in _directories(self._root / directory) or ()
            )
            pods[uid] = Pod(uid=uid, name=name, namespace=namespace, containers=containers)
        return PodView(pods=pods, known=True, authoritative=False)

    def close(self) -> None:
        """Nothing runs."""


def _directories(path: Path) -> list[str] | None:
    """The names of the directories in one, symlinks left out; None when it is unreadable."""
    try:
        with os.scandir(path) as entries:
            names = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
    except OSError:
        return None
    return sorted(name for name in names if _is_text(name))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value == value.encode("utf-8", "replace").decode()


def _text(value: object) -> str:
    return value if isinstance(value, str) and _is_text(value) else ""


def _texts(value: object) -> dict[str, str]:
    return {k: v for k, v in _mapping(value).items() if _is_text(k) and _is_text(v)}
