"""A node made of real files: containers with caches, their pods, and the host's processes."""

from __future__ import annotations

import json
from pathlib import Path

from hami_cache.node.hami import HAMI_ANNOTATION, HAMI_MIG_ANNOTATION
from hami_cache.node.pods import FilePods
from hami_cache.testing import CacheBuilder, container_tree

GIB = 1 << 30


class SimulatedNode:
    """Its hook path, its list of pods and its /proc below one folder."""

    def __init__(self, folder: Path) -> None:
        self.tree = container_tree(folder / "hook")
        self.hook_path = self.tree.root
        self.proc = folder / "proc"
        self.proc.mkdir()

    @property
    def pods(self) -> FilePods:
        """The pods as they are now."""
        return FilePods(self.tree.pods_json)

    def uid(self, pod: str) -> str:
        return self.tree.pods[pod].uid

    def pod(self, pod: str, *cards: str, cache: CacheBuilder | bytes | None = None) -> str:
        """A pod of one container, ``main``, that holds shares of the cards; returns its UID."""
        self.tree.add(pod, "main", cache)
        shares = "".join(f"{card},NVIDIA,4096,0:" for card in cards)
        self.tree.pods[pod].annotations[HAMI_ANNOTATION] = f"{shares};"
        self.tree.save()
        return self.uid(pod)

    def partition(self, pod: str, card: str, mig: str) -> None:
        """Give the pod's container a MIG instance too."""
        entry = {
            "containerIndex": 0,
            "deviceIndex": 0,
            "gpuUUID": card,
            "profile": "1g.10gb",
            "placement": {"start": 0, "size": 1},
            "migUUID": mig,
            "gpuInstanceID": 7,
            "computeInstanceID": 0,
        }
        self.tree.pods[pod].annotations[HAMI_MIG_ANNOTATION] = json.dumps([entry])
        self.tree.save()

    def process(self, hostpid: int, pod: str = "", inner: int = 1) -> None:
        """A process of the pod's container, or of the host."""
        cgroup = "0::/init.scope\n"
        if pod:
            known = self.tree.pods[pod]
            cgroup = f"0::/kubepods/burstable/pod{known.uid}/{known.container_id('main')}\n"
        folder = self.proc / str(hostpid)
        folder.mkdir()
        (folder / "cgroup").write_text(cgroup)
        (folder / "stat").write_text(f"{hostpid} (python) S 1")
        (folder / "comm").write_text("python\n")
        status = f"State:\tS (sleeping)\nNSpid:\t{hostpid}\t{inner}\n"
        (folder / "status").write_text(status)


def cache(*cards: str, limit: int = 16 * GIB, layout: str = "v1.2") -> CacheBuilder:
    """A cache over these cards, without processes yet."""
    builder = CacheBuilder(layout)
    for card in cards:
        builder.device(card, limit=limit, sm_limit=50)
    return builder
