"""Built libraries: the struct out of their debug information; clear words where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hami_cache.errors import ConfigError, HamiCacheError
from hami_cache.spec import registry
from hami_cache.spec.layout import Layout
from hami_cache.toolkit.check import check
from hami_cache.toolkit.elf import read_elf
from hami_cache.toolkit.render import render
from hami_cache.toolkit.shape import ShapeError
from tests.toolkit.headers import CC, CROSS_CC, EVERY_LAYOUT, needs_cc, needs_cross_cc, replaced

KNOWN = registry.layouts()
USE = "\nstatic shared_region_t region;\nvoid *use(void) { return &region; }\n"

pytestmark = needs_cc


def compiled(folder: Path, text: str, *flags: str, cc: str = CC) -> Path:
    """A shared library, or with ``-c`` an object file."""
    source, target = folder / "lib.c", folder / "libvgpu.so"
    source.write_text(text)
    kind = () if "-c" in flags else ("-shared", "-fPIC")
    subprocess.run([cc, *kind, *flags, "-o", str(target), str(source)], check=True)
    return target


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_a_library_is_its_layout(tmp_path: Path, layout: Layout) -> None:
    library = compiled(tmp_path, render(layout, "c") + USE, "-g")
    shape = read_elf(library)
    report = check(shape, KNOWN)
    assert report.passed
    assert report.same_as == (layout.name,)
    assert report.comparison.changes == ()
    assert list(shape.structs) == list(layout.structs)
    assert "GNU C" in shape.judge
    assert shape.machines == ("x86_64",)


@pytest.mark.parametrize("flags", [("-gdwarf-4",), ("-gdwarf-5", "-O2"), ("-g", "-gz")])
def test_every_kind_of_debug_information(tmp_path: Path, flags: tuple[str, ...]) -> None:
    library = compiled(tmp_path, render(KNOWN["v1.2"], "c") + USE, *flags)
    assert check(read_elf(library), KNOWN).same_as == ("v1.2",)


@needs_cross_cc
def test_an_aarch64_object(tmp_path: Path) -> None:
    text = render(KNOWN["v1.2"], "c") + USE
    shape = read_elf(compiled(tmp_path, text, "-g", "-c", cc=CROSS_CC))
    assert check(shape, KNOWN).same_as == ("v1.2",)
    assert shape.machines == ("aarch64",)


def test_a_moved_seqlock_is_found_in_a_library(tmp_path: Path) -> None:
    lines = [li for li in render(KNOWN["v1.2"], "c").splitlines() if "_Static_assert" not in li]
    text = replaced("\n".join(lines), "    _Atomic uint64_t seqlock;\n", "")
    text = replaced(text, "hostpid;\n", "hostpid;\n    _Atomic uint64_t seqlock;\n")
    report = check(read_elf(compiled(tmp_path, text + USE, "-g")), KNOWN, "v1.2")
    told = {change.path: change.detail for change in report.comparison.breaking}
    assert not report.passed
    assert told["procs.seqlock"] == "moved by -1928, 1936 to 8"
    assert told["procs.status"] == "moved by +8, 1928 to 1936"


def test_types_as_debug_information_has_them(tmp_path: Path) -> None:
    text = """
    enum colour { RED };
    typedef unsigned char byte;
    typedef byte name_t[10];
    union mixed { char c; long l; };
    typedef struct { long unsigned int a; short int b; signed char c; unsigned d; _Bool e;
      enum colour f; void *g; const char *h; union mixed i; double j; name_t k[3]; int l[2][3];
      volatile int m; struct { char x; } n; long long o; int (*p)(void); } shared_region_t;
    """
    shape = read_elf(compiled(tmp_path, text + USE, "-g", "-c"))
    assert {f.name: (f.type, f.ctype.kind, f.ctype.size, f.count) for f in shape.region.fields} == {
        "a": ("unsigned long", "unsigned", 8, 1), "b": ("short", "signed", 2, 1),
        "c": ("signed char", "signed", 1, 1), "d": ("unsigned int", "unsigned", 4, 1),
        "e": ("_Bool", "unsigned", 1, 1), "f": ("colour", "unsigned", 4, 1),
        "g": ("void *", "unsigned", 8, 1), "h": ("void *", "unsigned", 8, 1),
        "i": ("mixed", "text", 8, 1), "j": ("double", "text", 8, 1),
        "k": ("byte[10]", "text", 10, 3), "l": ("int", "signed", 4, 6),
        "m": ("volatile int", "signed", 4, 1), "n": ("shared_region_t_n", "struct", 1, 1),
        "o": ("long long", "signed", 8, 1), "p": ("void *", "unsigned", 8, 1),
    }  # fmt: skip


def test_no_debug_information_names_the_build(tmp_path: Path) -> None:
    library = compiled(tmp_path, render(KNOWN["v1.2"], "c") + USE, "-Wl,--build-id=0xcafe17")
    with pytest.raises(ShapeError) as error:
        read_elf(library)
    assert "has no debug information (build id cafe17, stripped or compiled without -g)" in str(
        error.value
    )
    assert "build it with -g" in str(error.value)


def test_another_struct_and_none(tmp_path: Path) -> None:
    library = compiled(tmp_path, "typedef struct { int a; } other_t; other_t region;", "-g")
    with pytest.raises(ShapeError, match=r"no struct shared_region_t \(structs there: other_t\)"):
        read_elf(library)
    assert read_elf(library, struct="other_t").region.sizeof == 4


@pytest.mark.parametrize(
    ("member", "message"), [("int a : 3;", "bit field"), ("", "no members")]
)  # fmt: skip
def test_what_has_no_offsets(tmp_path: Path, member: str, message: str) -> None:
    text = f"typedef struct {{ {member} }} shared_region_t;{USE}"
    with pytest.raises(ShapeError, match=message):
        read_elf(compiled(tmp_path, text, "-g", "-c"))


def test_a_32_bit_library_is_refused(tmp_path: Path) -> None:
    library = compiled(tmp_path, "struct shared_region { int a; } region;", "-m32", "-g", "-c")
    with pytest.raises(ShapeError, match="32-bit little-endian machine"):
        read_elf(library)


def test_files_that_are_no_library(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="cannot be read: No such file"):
        read_elf(tmp_path / "nothing.so")
    (tmp_path / "text.so").write_text("hello")
    with pytest.raises(ShapeError, match="is not a sound ELF file"):
        read_elf(tmp_path / "text.so")


def test_without_pyelftools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "elftools.elf.elffile", None)
    with pytest.raises(ConfigError, match=r"needs pyelftools; pip install 'hami-cache\[elf\]'"):
        read_elf(tmp_path / "libvgpu.so")


@pytest.fixture(scope="module")
def small_object(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An object file of a few kilobytes."""
    folder = tmp_path_factory.mktemp("object")
    return compiled(folder, render(KNOWN["v1.2"], "c") + USE, "-g", "-c").read_bytes()


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damaged_libraries_never_crash(
    tmp_path: Path, small_object: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(small_object)
    places = st.tuples(st.integers(0, len(damaged) - 1), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    for place, value in data.draw(st.lists(places, min_size=1, max_size=5)):
        damaged[place] = value
    path = tmp_path / "damaged.o"
    path.write_bytes(damaged[: data.draw(st.sampled_from([len(damaged), len(damaged) // 2]))])
    try:
        read_elf(path)
    except HamiCacheError as error:
        assert "\n" not in str(error)
