"""Steps of the real program's feedback loop, over real files, through the whole of ours."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hami_cache.monitor.feedback import Feedback
from hami_cache.node.containers import ContainerTree
from hami_cache.read.cache import open_cache
from hami_cache.spec.layout import Layout
from hami_cache.spec.registry import layout
from hami_cache.testing import CacheBuilder
from hami_cache.testing.encode import encode
from tests.vectors.loader import cases

NUMBERS = {
    "recentKernel": "recent_kernel",
    "priority": "priority",
    "utilizationSwitch": "utilization_switch",
}


class Node:
    """The containers of one case: files that are made once, and changed in place between steps."""

    def __init__(self, root: Path, versions: dict[str, str]) -> None:
        self._root = root / "containers"
        self._root.mkdir()
        self._layouts = {name: layout(version) for name, version in versions.items()}

    def set(self, containers: dict[str, Any]) -> None:
        for directory in self._root.iterdir():
            if directory.name.partition("_")[2] not in containers:
                shutil.rmtree(directory)
        for name, state in containers.items():
            path = self._path(name)
            if not path.exists():
                CacheBuilder(self._layouts[name]).process(1).write(path)
            self._patch(path, self._layouts[name], state)

    def get(self, containers: dict[str, Any]) -> dict[str, Any]:
        answer = {}
        for name in containers:
            with open_cache(self._path(name), layout=self._layouts[name]) as cache:
                header = cache.snapshot().header
            answer[name] = {
                "recentKernel": header.recent_kernel,
                "utilizationSwitch": header.utilization_switch,
            }
        return answer

    def _path(self, name: str) -> Path:
        return self._root / f"uid-{name}_{name}" / "x.cache"

    def _patch(self, path: Path, its: Layout, state: dict[str, Any]) -> None:
        with path.open("r+b") as file:
            for key, field in NUMBERS.items():
                ref = its.field(field)
                file.seek(ref.offset)
                file.write(encode(ref, state[key]))
            for index in range(its.field("uuids").count):
                ref = its.field(f"uuids[{index}]")
                uuid = state["uuids"][index] if index < len(state["uuids"]) else ""
                file.seek(ref.offset)
                file.write(encode(ref, uuid))


@pytest.mark.parametrize("case", cases("feedback"))
def test_every_step_equals_the_real_program(case: Any, tmp_path: Path) -> None:
    node = Node(tmp_path, case["input"]["versions"])
    tree = ContainerTree(tmp_path)
    feedback = Feedback(tree)
    for step, want in zip(case["input"]["steps"], case["want"]["steps"], strict=True):
        node.set(step["containers"])
        decisions = feedback.run()
        assert node.get(step["containers"]) == want["containers"]
        assert {d.container.container: d.error for d in decisions} == dict.fromkeys(
            step["containers"], ""
        )
    tree.close()
