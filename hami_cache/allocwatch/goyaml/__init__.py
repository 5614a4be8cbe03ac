"""YAML as the Go programs that share our files read and write it.

The override file is rewritten in turn by us and by a Go program built on ``sigs.k8s.io/yaml``
(which is ``yaml.v2`` 2.4.0 plus ``encoding/json``): YAML 1.1 scalars, keys turned into text, sorted
block style out. PyYAML does the parsing; what the scalars mean and how text comes out again is
decided here, so that a file both programs touch does not change its meaning from one to the other.
"""

from __future__ import annotations

from hami_cache.allocwatch.goyaml.reader import Json, load
from hami_cache.allocwatch.goyaml.writer import dump

__all__ = ["Json", "dump", "load"]
