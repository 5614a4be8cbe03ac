"""Imports point one way, and each heavy or dangerous dependency has one home."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from hami_cache.spec import registry

PACKAGE = Path(__file__).resolve().parents[1] / "hami_cache"

ROOMS = (
    "spec", "read", "forensics", "toolkit", "node", "slices", "allocwatch", "monitor", "testing",
    "cli",
)  # fmt: skip
"""Upper rooms import lower ones only: each of these, those before it."""

GROUND = ("errors", "absent", "model", "durations", "quantities")
"""Modules beside the rooms, which everybody may import and which import each other only."""

FACE = "__init__"
"""The library's face names things of all rooms, and loads them when they are used."""

HOMES = {
    "cffi": ("read.seqlock",),
    "_cffi_backend": ("read.seqlock",),
    "hami_cache._reader": ("read.seqlock",),
    "ctypes": ("node.nvml", "testing.nvml"),
    "prometheus_client": ("monitor",),
    "kubernetes": ("node",),
    "lightkube": ("node",),
    "httpx": ("node",),
    "httpx2": ("node",),
    "grpc": ("node",),
    "pynvml": ("node.nvml",),
    "mmap": (),
    "pickle": (),
    "marshal": (),
}
"""Where a module may be imported: in these modules or rooms; () is nowhere."""


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name below it."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


def imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """The modules that some nodes import, with the line; relative ones are not used here."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield f"{'.' * node.level}{node.module}", node.lineno
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module"
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value), node.lineno


def everywhere() -> Iterator[tuple[str, str, int]]:
    """Every import of the package, late ones included: importing module, imported one, line."""
    for name in MODULES:
        for target, line in imports(ast.walk(tree(name))):
            yield name, target, line


def room(module: str) -> str:
    """The room (or the ground module) that a module is in."""
    return module.partition(".")[0]


def rank(module: str) -> int:
    return ROOMS.index(room(module)) if room(module) in ROOMS else -1


def within(name: str, homes: Iterable[str]) -> bool:
    return any(name == home or name.startswith(f"{home}.") for home in homes)


def test_every_module_has_its_place() -> None:
    """A new room or a new module beside the rooms needs a decision: put it into the list above."""
    assert {room(name) for name in MODULES} <= {*ROOMS, *GROUND, FACE}


def test_imports_point_one_way() -> None:
    wrong = [
        f"{name}:{line} imports {target}"
        for name, target, line in everywhere()
        if name != FACE
        if target.startswith((".", "hami_cache"))
        if target == "hami_cache" or rank(target.removeprefix("hami_cache.")) > rank(name)
    ]
    assert wrong == []


def test_each_dependency_has_one_home() -> None:
    wrong = [
        f"{name}:{line} imports {target}; only {homes or 'nobody'} may"
        for name, target, line in everywhere()
        for banned, homes in HOMES.items()
        if within(target, [banned]) and not within(name, homes)
    ]
    assert wrong == []


def test_no_text_is_run_as_code() -> None:
    wrong = [
        f"{name}:{node.lineno} calls {node.func.id}"
        for name in MODULES
        for node in ast.walk(tree(name))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in ("exec", "eval", "compile")
    ]
    assert wrong == []


def test_no_code_that_reads_names_a_layout() -> None:
    """A layout is a file: code that names one would have to change with the next."""
    known = set(registry.layouts())
    wrong = [
        f"{name}:{node.lineno} names {node.value}"
        for name in MODULES
        if room(name) in ("spec", "read", "forensics", "node", "monitor", "slices")
        for node in ast.walk(tree(name))
        if isinstance(node, ast.Constant) and node.value in known
    ]
    assert wrong == []


def test_no_module_imports_itself_round_a_corner() -> None:
    """Late imports and those for type checkers aside: those are for starting fast."""
    graph = {
        name: sorted(
            {
                inner
                for target, _ in imports(tree(name).body)
                if (inner := target.removeprefix("hami_cache.")) in MODULES and inner != name
            }
        )
        for name in MODULES
    }
    graphlib.TopologicalSorter(graph).prepare()
