"""Every layout's offsets are the compiler's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hami_cache.cli.layout import structure
from hami_cache.spec import registry
from hami_cache.spec.foreign import sizes_on_32_bits
from hami_cache.spec.layout import C_INTEGERS
from tests.goldens import LAYOUTS

ABI = Path(__file__).resolve().parent.parent / "data" / "abi"


def abi(name: str) -> Any:
    """What a C compiler says about the struct of a layout's commits."""
    return json.loads((ABI / f"{name}.json").read_text())


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_struct_is_the_compilers(name: str) -> None:
    found = structure(registry.layout(name))["structs"]
    want = abi(name)["structs"]
    assert list(found) == list(want)
    for struct, expected in want.items():
        keys = ("name", "type", "offset", "size", "count", "align")
        rows = [{key: field[key] for key in keys} for field in expected["fields"]]
        assert found[struct]["fields"] == rows, struct
        assert found[struct]["sizeof"] == expected["sizeof"]
        assert found[struct]["alignof"] == expected["alignof"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_constants_are_the_compilers(name: str) -> None:
    layout, want = registry.layout(name), abi(name)
    constants = want["constants"]
    version = layout.identity.version
    assert layout.file_sizes[-1] == want["file_size"]
    assert layout.sizeof == constants["SHARED_REGION_SIZE_MAGIC"]
    assert layout.identity.magic == constants["MAGIC"]
    assert layout.field("uuids").count == constants["CUDA_DEVICE_MAX_COUNT"]
    assert layout.field("procs").count == constants["SHARED_REGION_MAX_PROCESS_NUM"]
    assert layout.field("sem").size == constants["sizeof_sem_t"]
    assert layout.field("sem").ctype.align == constants["alignof_sem_t"]
    assert C_INTEGERS["size_t"][0] == constants["sizeof_size_t"]
    assert C_INTEGERS["int"][0] == constants["sizeof_int"]
    assert (version and version.major) == constants.get("MAJOR_VERSION")
    assert (version and version.minor) == constants.get("MINOR_VERSION")


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_commits_built_are_named(name: str) -> None:
    built = set(abi(name)["commits"])
    assert built <= set(registry.layout(name).upstream.commits)


def test_no_layout_has_the_size_of_its_own_32_bit_twin() -> None:
    """Else "written by a 32-bit program" could be said of a good file."""
    for layout in registry.layouts().values():
        assert not set(layout.file_sizes) & sizes_on_32_bits(layout)
