"""A node for the tests of ``hami-cache top``: some containers are fine, some are not."""

from __future__ import annotations

import time
from pathlib import Path

from hami_cache.testing import CacheBuilder, ContainerTree, Memory, container_tree

GIB = 1 << 30

MARKUP = "[red]x[@click=app.quit][link=a]"
"""What a tenant might name things, if the view took names for markup."""


def node(root: Path) -> ContainerTree:
    """Two trainers on two cards, a pod that counts below zero, a cut file, one that has no file."""
    now = int(time.time())
    tree = container_tree(root)
    busy = CacheBuilder("v1.2", last_kernel_time=now - 3700)
    busy.device("GPU-aaaa", limit=16 * GIB, sm_limit=50).device("GPU-bbbb", limit=8 * GIB)
    busy.process(71, 7100, memory=[12 * GIB, GIB], sm_util=[35, 5])
    busy.process(72, 7200, memory=[2 * GIB])
    tree.add("busy", "main", busy, namespace="team-a")
    over = CacheBuilder("v1-sem").device("GPU-aaaa", limit=4 * GIB, sm_limit=50)
    tree.add("over", "main", over.process(5, 500, memory=[6 * GIB], sm_util=[80]))
    below = (
        CacheBuilder("v1.2").device("GPU-cccc").process(6, 600, memory=[Memory(total=2**64 - 5)])
    )
    tree.add("below", MARKUP, below)
    whole = CacheBuilder("v1.2").device().process(7, memory=[GIB]).build()
    tree.add("cut", "main", whole[:1_500_000])
    tree.add("starting", "main")
    tree.add("ended", "main", CacheBuilder("v1.2"), phase="Succeeded")
    return tree
