"""Every layout's offsets on every machine that its file names, by a compiler for that machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hami_cache.spec import registry
from hami_cache.spec.layout import Layout
from hami_cache.toolkit.check import check
from hami_cache.toolkit.compiler import find_compiler
from hami_cache.toolkit.header import read_header
from hami_cache.toolkit.shape import ShapeError
from tests.toolkit.headers import EVERY_LAYOUT, header_of, write

KNOWN = registry.layouts()

COMPILERS = {"x86_64": ("x86_64-linux-gnu-gcc", "gcc"), "aarch64": ("aarch64-linux-gnu-gcc", "gcc")}


def compiler_for(machine: str) -> str:
    """A compiler that compiles for a machine, or a skip that says which package has one."""
    for command in COMPILERS[machine]:
        if shutil.which(command):
            found = find_compiler(command)
            if found and found.machine.startswith(machine):
                return command
    pytest.skip(f"no compiler for {machine} here (Debian: gcc-{machine}-linux-gnu)")


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_the_machines_are_ones_we_can_ask_about(layout: Layout) -> None:
    assert set(layout.abi.architectures) == COMPILERS.keys()
    assert layout.abi.witness


@pytest.mark.parametrize("machine", COMPILERS)
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_a_compiler_for_the_machine_agrees(tmp_path: Path, layout: Layout, machine: str) -> None:
    cc = compiler_for(machine)
    shape = read_header(write(tmp_path, header_of(layout)), cc=cc)
    assert shape.machines == (machine,)
    assert check(shape, KNOWN).same_as == (layout.name,)
    for name, struct in layout.structs.items():
        found = {f.name: (f.offset, f.size, f.ctype.align) for f in shape.structs[name].fields}
        assert found == {f.name: (f.offset, f.size, f.ctype.align) for f in struct.fields}
        assert (shape.structs[name].sizeof, shape.structs[name].alignof) == (
            struct.sizeof, struct.alignof,
        )  # fmt: skip


def test_a_type_that_machines_disagree_about_is_seen(tmp_path: Path) -> None:
    """A mutex has 40 bytes on x86_64 and 48 on aarch64: such a region cannot be shared by name."""
    text = header_of(KNOWN["v1"]).replace("    sem_t sem;", "    pthread_mutex_t sem;")
    path = write(tmp_path, text)
    shapes = [read_header(path, cc=compiler_for(machine)) for machine in COMPILERS]
    sizes = [field.size for shape in shapes for field in shape.region.fields if field.name == "sem"]
    assert sizes == [40, 48]
    assert shapes[1].region.sizeof == shapes[0].region.sizeof + 8
    with pytest.raises(
        ShapeError, match="pthread_mutex_t is not declared; a C compiler could tell"
    ):
        read_header(path, cc="none")
