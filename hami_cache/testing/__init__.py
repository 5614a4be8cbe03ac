"""Building caches and nodes for tests, ours and other people's."""

from hami_cache.testing.builder import CacheBuilder, build_cache
from hami_cache.testing.contents import Device, Memory, Process
from hami_cache.testing.tree import ContainerTree, TreePod, container_tree

__all__ = [
    "CacheBuilder",
    "ContainerTree",
    "Device",
    "Memory",
    "Process",
    "TreePod",
    "build_cache",
    "container_tree",
]
