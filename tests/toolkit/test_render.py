"""Layouts in other languages: their compilers, where they are, find every offset again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hami_cache.errors import ConfigError
from hami_cache.spec import registry
from hami_cache.spec.layout import Field, Layout, Struct
from hami_cache.testing import CacheBuilder
from hami_cache.toolkit.draft import from_shape
from hami_cache.toolkit.header import read_header
from hami_cache.toolkit.render import TARGETS, render
from hami_cache.toolkit.shape import gaps
from tests.toolkit.headers import (
    CC,
    CROSS_CC,
    EVERY_LAYOUT,
    header_of,
    needs_cc,
    needs_cross_cc,
    replaced,
    write,
)  # fmt: skip

KNOWN = registry.layouts()
GO = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
RUSTC = shutil.which("rustc")
GOFMT = GO and shutil.which("gofmt", path=str(Path(GO).parent))

WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", "c")


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
@pytest.mark.parametrize(
    "cc", [pytest.param(CC, marks=needs_cc), pytest.param(CROSS_CC, marks=needs_cross_cc)]
)
def test_c_compiles_and_holds_its_assertions(tmp_path: Path, layout: Layout, cc: str) -> None:
    path = write(tmp_path, render(layout, "c"))
    subprocess.run([cc, *WARNINGS, str(path)], check=True)


@needs_cc
def test_a_c_assertion_catches_a_change(tmp_path: Path) -> None:
    text = replaced(
        render(KNOWN["v1.2"], "c"), "    uint64_t device_num;", "    uint32_t device_num;"
    )
    path = write(tmp_path, text)
    done = subprocess.run([CC, *WARNINGS, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode
    assert "shared_region_t" in done.stderr or "static assertion failed" in done.stderr


def go(*arguments: str, arch: str) -> subprocess.CompletedProcess[str]:
    assert GO is not None
    environment = {**os.environ, "GOARCH": arch, "GO111MODULE": "off"}
    return subprocess.run(
        [GO, *arguments], capture_output=True, text=True, check=False, env=environment
    )


@pytest.mark.skipif(GO is None, reason="no Go compiler here")
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_go_compiles_and_holds_its_assertions(tmp_path: Path, layout: Layout, arch: str) -> None:
    path = write(tmp_path, render(layout, "go"), "region.go")
    done = go("vet", str(path), arch=arch)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(GO is None, reason="no Go compiler here")
def test_a_go_assertion_catches_a_change(tmp_path: Path) -> None:
    text = render(KNOWN["v1.2"], "go").replace("OwnerPid          uint64", "OwnerPid uint32")
    text = text.replace("Sem               [4]uint64", "Sem [32]byte")
    done = go("vet", str(write(tmp_path, text, "region.go")), arch="amd64")
    assert done.returncode


@pytest.mark.skipif(not GOFMT, reason="no gofmt here")
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_go_is_formatted(tmp_path: Path, layout: Layout) -> None:
    path = write(tmp_path, render(layout, "go"), "region.go")
    done = subprocess.run([str(GOFMT), "-d", str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == ""


@pytest.mark.skipif(RUSTC is None, reason="no Rust compiler here")
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_rust_compiles_and_holds_its_assertions(tmp_path: Path, layout: Layout) -> None:
    path = write(tmp_path, render(layout, "rust"), "region.rs")
    flags = [
        "--crate-type=lib",
        "--emit=metadata",
        "-Dwarnings",
        "-o",
        str(tmp_path / "region.rmeta"),
    ]
    subprocess.run([str(RUSTC), *flags, str(path)], check=True)


def signature(parser: Any) -> Any:
    """Names, sizes and nesting of a construct parser: equal ones parse alike."""
    inner = getattr(parser, "subcons", None) or [getattr(parser, "subcon", None)]
    below = [signature(one) for one in inner if one is not None]
    return (
        parser.name,
        parser.sizeof(),
        getattr(parser, "count", None),
        getattr(parser, "fmtstr", None),
        below,
    )


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_construct_is_the_librarys_own(layout: Layout) -> None:
    names: dict[str, Any] = {}
    exec(compile(render(layout, "construct"), "region.py", "exec"), names)
    assert names[layout.region.name].sizeof() == layout.sizeof
    assert signature(names[layout.region.name]) == signature(layout.construct)


def test_construct_parses_and_builds_a_cache() -> None:
    layout = KNOWN["v1.2"]
    names: dict[str, Any] = {}
    exec(compile(render(layout, "construct"), "region.py", "exec"), names)
    region = CacheBuilder("v1.2").process(71, memory=[1 << 30]).build()[: layout.sizeof]
    parsed = names[layout.region.name].parse(region)
    assert parsed.procs[0].pid == 71
    assert parsed.procs[0].used[0].total == 1 << 30
    assert names[layout.region.name].build(parsed) == region


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_kaitai_covers_every_byte_in_order(layout: Layout) -> None:
    yaml = pytest.importorskip("yaml")
    document = yaml.safe_load(render(layout, "kaitai"))
    assert document["meta"]["endian"] == "le"
    types = {name: body["seq"] for name, body in document["types"].items()}

    def size(sequence: list[dict[str, Any]]) -> int:
        total = 0
        for entry in sequence:
            kind = entry.get("type", "")
            if "size" in entry:
                one = entry["size"]
            elif re.fullmatch(r"[us][1248]", kind):
                one = int(kind[1])
            else:
                one = size(types[kind])
            total += one * entry.get("repeat-expr", 1)
        return total

    def places(sequence: list[dict[str, Any]]) -> dict[str, int]:
        return {entry["id"]: size(sequence[:i]) for i, entry in enumerate(sequence)}

    assert size(document["seq"]) == layout.sizeof
    for struct in layout.structs.values():
        sequence = document["seq"] if struct is layout.region else types[struct.name]
        found = places(sequence)
        assert {f.name: found[f.name] for f in struct.fields} == {
            f.name: f.offset for f in struct.fields
        }
        assert all(re.fullmatch("[a-z][a-z0-9_]*", entry["id"]) for entry in sequence)


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_imhex_covers_every_byte_in_order(layout: Layout) -> None:
    text = render(layout, "imhex")
    sizes = {"u32": 4, "s32": 4, "u64": 8, "s64": 8, "char": 1, "padding": 1}
    for name, body in re.findall(r"struct (\w+) \{\n(.*?)\};", text, re.DOTALL):
        offset = 0
        known = layout.structs.get(name)
        for kind, field, count in re.findall(r"(\w+)(?: (\w+))?(?:\[(\d+)\])?;", body):
            if known and field:
                [expected] = [f for f in known.fields if f.name == field]
                assert offset == expected.offset, field
            offset += sizes[kind] * int(count or 1)
        sizes[name] = offset
        assert known is None or offset == known.sizeof
    assert sizes[layout.region.name] == layout.sizeof
    assert text.endswith(f"{layout.region.name} region @ 0x00;\n")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_every_target_says_what_it_is(target: str, layout: Layout) -> None:
    text = render(layout, target)
    assert layout.name in text
    assert str(layout.identity.magic) in text
    assert text.endswith("\n")
    for struct in layout.structs.values():
        for field in struct.fields:
            words = re.sub(r"[^a-z0-9]", "", text.lower())
            assert field.padding or field.name.replace("_", "") in words


def test_an_unknown_target() -> None:
    with pytest.raises(ConfigError, match="cannot export to 'cobol'; known: c, go"):
        render(KNOWN["v1"], "cobol")


UNUSUAL = """
    double share;
    unsigned char raw[3];
    unsigned short type;
    void *next;
    counter_t counts[2];
    uint64_t device_num;"""


@pytest.fixture
def unusual(tmp_path: Path) -> Layout:
    """A layout with types that none of the real ones has."""
    text = replaced(header_of(KNOWN["v1.2"]), "    uint64_t device_num;", UNUSUAL)
    text = replaced(
        text, "typedef char uuid[96];", "typedef char uuid[96];\ntypedef uint32_t counter_t;"
    )
    shape = read_header(write(tmp_path, text, "unusual.h"), cc="none")
    return from_shape(shape, KNOWN["v1.2"], "unusual", KNOWN)


def test_unusual_types_in_c_and_construct(tmp_path: Path, unusual: Layout) -> None:
    names: dict[str, Any] = {}
    exec(compile(render(unusual, "construct"), "region.py", "exec"), names)
    assert names["shared_region_t"].sizeof() == unusual.sizeof
    shape = read_header(write(tmp_path, render(unusual, "c")), cc="none")
    assert [(f.name, f.offset) for f in shape.region.fields] == [
        (f.name, f.offset) for f in unusual.region.fields
    ]
    if shutil.which(CC):
        subprocess.run([CC, *WARNINGS, str(tmp_path / "shared.h")], check=True)


@pytest.mark.skipif(GO is None, reason="no Go compiler here")
def test_unusual_types_in_go(tmp_path: Path, unusual: Layout) -> None:
    done = go("vet", str(write(tmp_path, render(unusual, "go"), "region.go")), arch="amd64")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(RUSTC is None, reason="no Rust compiler here")
def test_unusual_types_in_rust(tmp_path: Path, unusual: Layout) -> None:
    path = write(tmp_path, render(unusual, "rust"), "region.rs")
    flags = [
        "--crate-type=lib",
        "--emit=metadata",
        "-Dwarnings",
        "-o",
        str(tmp_path / "region.rmeta"),
    ]
    subprocess.run([str(RUSTC), *flags, str(path)], check=True)


def test_gaps_of_a_struct() -> None:
    def field(offset: int, size: int) -> Field:
        return Field("f", "x", KNOWN["v1"].region.fields[0].ctype, offset, size // 4, True, "f")

    struct = Struct("t", 24, 8, (field(0, 4), field(8, 8)))
    assert list(gaps(struct)) == [(4, 4), (16, 8)]
