"""The plugin, as a project outside this repository uses it: in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hami_cache.errors import HamiCacheError
from hami_cache.spec import registry
from hami_cache.testing.assertions import assert_layout_matches_header
from tests.toolkit.headers import header_of, replaced, write

OUTSIDE = """
from pathlib import Path

import pytest
import hami_cache


def test_newest_layout(cache_builder, tmp_path):
    path = cache_builder().process(71, memory=[1 << 30]).write(tmp_path / "x.cache")
    assert hami_cache.identify(path).layout.name == list(hami_cache.layouts())[-1]


@pytest.mark.parametrize("layout", list(hami_cache.layouts()))
def test_any_layout(cache_builder, tmp_path, layout):
    builder = cache_builder(layout, priority=0).process(71, memory=[1 << 30])
    with hami_cache.open_cache(builder.write(tmp_path / "x.cache")) as cache:
        assert cache.snapshot().devices[0].used.total == 1 << 30
        assert cache.snapshot().header.priority == 0


def test_nvml(fake_nvml):
    from hami_cache.node.nvml_session import Nvml
    from hami_cache.testing.nvml import Gpu

    fake_nvml.write(Gpu(uuid="GPU-a", used=7))
    with Nvml(lock=fake_nvml.script.with_name("lock")) as nvml:
        assert [card.memory_used for card in nvml.host_devices().devices] == [7]


def test_tree(container_tree, cache_builder):
    path = container_tree.add("trainer-0", "main", cache_builder("v1").process(71))
    assert path.parent.parent == container_tree.containers
    assert container_tree.pods_json.exists()


def test_header(assert_layout_matches_header):
    assert_layout_matches_header(Path(__file__).parent / "shared.h", "v1.2", cc="none")


def test_changed_header(assert_layout_matches_header):
    with pytest.raises(AssertionError, match="moved by"):
        assert_layout_matches_header(Path(__file__).parent / "changed.h", "v1.2", cc="none")
"""


def changed(text: str) -> str:
    return replaced(text, "    uint64_t device_num;", "    long flags;\n    uint64_t device_num;")


def test_a_project_outside_uses_the_plugin(tmp_path: Path) -> None:
    text = header_of(registry.layout("v1.2"))
    write(tmp_path, text)
    write(tmp_path, changed(text), "changed.h")
    write(tmp_path, OUTSIDE, "test_outside.py")
    write(tmp_path, 'pytest_plugins = ["hami_cache.testing.plugin"]\n', "conftest.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    done = subprocess.run(
        [*command, "."], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    assert f"{len(registry.layouts()) + 5} passed" in done.stdout, done.stdout + done.stderr


def test_the_assertion_names_every_field(tmp_path: Path) -> None:
    path = write(tmp_path, changed(header_of(registry.layout("v1.2"))))
    with pytest.raises(AssertionError) as error:
        assert_layout_matches_header(path, cc="none")
    lines = str(error.value).splitlines()
    assert lines[0] == f"{path} is not v1.2:"
    assert "  flags: added at 56, 8 bytes" in lines
    assert "  device_num: moved by +8, 56 to 64" in lines
    assert any("THE VERSION WAS NOT BUMPED" in line for line in lines)


def test_the_assertion_about_one_layout(tmp_path: Path) -> None:
    path = write(tmp_path, header_of(registry.layout("v1")))
    assert_layout_matches_header(str(path), cc="none")
    with pytest.raises(AssertionError, match=r"is not v1\.2"):
        assert_layout_matches_header(path, "v1.2", cc="none")
    with pytest.raises(HamiCacheError, match="cannot be read"):
        assert_layout_matches_header(tmp_path / "nothing.h")
