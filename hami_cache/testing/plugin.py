"""A pytest plugin: caches, a node's folder of containers and layout checks as fixtures.

Name it in a project's top ``conftest.py``:

    pytest_plugins = ["hami_cache.testing.plugin"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hami_cache.spec import registry
from hami_cache.spec.layout import Layout
from hami_cache.testing import assertions
from hami_cache.testing.builder import CacheBuilder
from hami_cache.testing.nvml import FakeNvml
from hami_cache.testing.tree import ContainerTree


@pytest.fixture
def cache_builder() -> Callable[..., CacheBuilder]:
    """Starts a cache file: ``cache_builder("v1.2").process(71, memory=[1 << 30]).write(path)``.

    Takes what `CacheBuilder` takes; without a layout it is the newest one.
    """

    def build(layout: Layout | str | None = None, **header: int) -> CacheBuilder:
        newest = list(registry.layouts().values())[-1]
        return CacheBuilder(newest if layout is None else layout, **header)

    return build


@pytest.fixture
def container_tree(tmp_path: Path) -> ContainerTree:
    """An empty folder of container caches, as HOOK_PATH names one, with its pods beside it."""
    return ContainerTree(tmp_path / "hami-node")


@pytest.fixture
def assert_layout_matches_header() -> Callable[..., None]:
    """The assertion `hami_cache.testing.assertions.assert_layout_matches_header`."""
    return assertions.assert_layout_matches_header


@pytest.fixture
def fake_nvml(tmp_path: Path) -> Iterator[FakeNvml]:
    """A scriptable libnvidia-ml.so.1 under this process's nvidia-ml-py; needs a C compiler.

    ``fake_nvml.write(Gpu(uuid="GPU-a", used=1 << 30))`` says which cards there are; see
    `hami_cache.testing.nvml`.
    """
    folder = tmp_path / "fake-nvml"
    folder.mkdir()
    with FakeNvml.loaded(folder) as fake:
        yield fake
