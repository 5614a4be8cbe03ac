"""Go mirrors: placed as Go's compiler places them, and wrong ones told apart from right ones."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hami_cache.errors import HamiCacheError
from hami_cache.spec import registry
from hami_cache.spec.layout import Layout
from hami_cache.toolkit.check import Report, check
from hami_cache.toolkit.gomirror import read_go
from hami_cache.toolkit.render import render
from hami_cache.toolkit.shape import Shape, ShapeError
from tests.toolkit.headers import EVERY_LAYOUT, replaced, write

KNOWN = registry.layouts()
GO = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")

needs_go = pytest.mark.skipif(GO is None, reason="no Go compiler here")

MIRROR = """\
// Package mirror reads what libvgpu writes.
package mirror

import "unsafe"

const maxDevices = 16

const (
	slots, label = 1024, 96 // not evaluated: two at once
	slotCount int = 4 * 256
)

type (
	deviceMemory struct {
		contextSize, moduleSize uint64
		bufferSize  uint64 /* data, under
		another name */
		offset      uint64
		total       uint64
		unused      [3]uint64
	}
	deviceUtil struct { decUtil, encUtil, smUtil uint64; _ [3]uint64 }
)

type count = uint64

type slot struct {
	pid         int32 `json:"pid"`
	hostpid     int32
	used        [maxDevices]deviceMemory
	monitorused [maxDevices]count
	deviceUtil  [maxDevices]deviceUtil
	status      int32
	seqlock     uint64
	unused      [2]uint64
}

type uuid struct{ uuid [96]byte }

type semT [4]uint64

type versions struct {
	initializedFlag int32
	majorVersion    uint32
	minorVersion    uint32
	smInitFlag      int32
}

type sharedRegionT struct {
	versions
	ownerPid uint64
	sem      semT
	num      uint64
	uuids    [maxDevices]uuid
	limit    [maxDevices]uint64
	smLimit  [maxDevices]uint64
	procs    [slotCount]slot

	procNum, utilizationSwitch, recentKernel int32
	priority       int32
	lastKernelTime int64
	semPostinit    struct{ raw [32]byte }
}

func size() uintptr {
	type sharedRegionT struct{ other int }
	return unsafe.Sizeof(sharedRegionT{})
}
"""


def checked(folder: Path, text: str, against: str | None = "v1.2") -> Report:
    return check(read_go(write(folder, text, "spec.go")), KNOWN, against)


def told(report: Report) -> dict[str, str]:
    return {change.path: change.detail for change in report.comparison.breaking}


def test_a_right_mirror_is_its_layout(tmp_path: Path) -> None:
    report = checked(tmp_path, MIRROR, None)
    assert report.passed
    assert report.same_as == ("v1.2",)
    assert report.remarks == ()


def test_a_misplaced_seqlock_is_found(tmp_path: Path) -> None:
    text = replaced(MIRROR, "\tseqlock     uint64\n", "")
    text = replaced(text, "\thostpid     int32\n", "\thostpid     int32\n\tseqlock uint64\n")
    report = checked(tmp_path, text)
    assert not report.passed
    assert told(report) == {
        "procs.seqlock": "moved by -1928, 1936 to 8",
        "procs.used": "moved by +8, 8 to 16",
        "procs.monitorused": "moved by +8, 1032 to 1040",
        "procs.device_util": "moved by +8, 1160 to 1168",
        "procs.status": "moved by +8, 1928 to 1936",
    }
    assert report.shape.region.sizeof == KNOWN["v1.2"].sizeof, "the size does not tell"


def test_a_32_bit_owner_that_lines_up_by_padding_is_found(tmp_path: Path) -> None:
    report = checked(tmp_path, replaced(MIRROR, "ownerPid uint64", "ownerPid uint32"))
    assert not report.passed
    assert told(report) == {"owner_pid": "resized, 8 bytes to 4 bytes"}
    assert report.remarks == (
        "sem is at 24 only because the compiler leaves 4 bytes of padding before it",
    )
    assert report.shape.region.sizeof == KNOWN["v1.2"].sizeof, "the size does not tell"


def test_a_semaphore_as_bytes_slips_under_a_short_owner(tmp_path: Path) -> None:
    text = replaced(MIRROR, "ownerPid uint64", "ownerPid uint32")
    text = replaced(text, "type semT [4]uint64", "type semT struct{ sem [32]byte }")
    report = checked(tmp_path, text)
    assert told(report) == {
        "owner_pid": "resized, 8 bytes to 4 bytes",
        "sem": "moved by -4, 24 to 20",
    }
    assert report.remarks == (
        "device_num is at 56 only because the compiler leaves 4 bytes of padding before it",
    )


def test_other_names_and_signs_harm_nobody(tmp_path: Path) -> None:
    report = checked(tmp_path, MIRROR)
    harmless = {change.path: change.kinds for change in report.comparison.changes}
    assert harmless == {
        "device_num": ("renamed",),
        "procs.used.data_size": ("renamed",),
        "last_kernel_time": ("retyped",),
    }


def test_a_field_of_half_the_size_twice_is_found(tmp_path: Path) -> None:
    report = checked(tmp_path, replaced(MIRROR, "\tnum      uint64", "\tnum      [2]uint32"))
    assert "8 bytes became 2 x 4 bytes" in told(report)["device_num"]


def test_a_missing_seqlock_is_found(tmp_path: Path) -> None:
    text = replaced(MIRROR, "\tseqlock     uint64\n\tunused      [2]", "\tunused      [3]")
    assert told(checked(tmp_path, text)) == {"procs.seqlock": "removed at 1936, 8 bytes"}


def test_a_mirror_of_a_superseded_layout_is_remarked(tmp_path: Path) -> None:
    path = write(tmp_path, render(KNOWN["v1-seqlock"], "go"), "spec.go")
    report = check(read_go(path), KNOWN)
    assert report.passed
    assert any("not the current layout (v1.2)" in remark for remark in report.remarks)


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_an_exported_mirror_is_its_layout(tmp_path: Path, layout: Layout) -> None:
    report = checked(tmp_path, render(layout, "go"), None)
    assert report.passed
    assert report.same_as == (layout.name,)


def go_says(folder: Path, text: str, struct: str, fields: list[str]) -> list[int]:
    """Size and offsets from Go's compiler."""
    assert GO is not None
    text = text.replace("package mirror", "package main").replace(
        'import "unsafe"', 'import ("fmt"; "unsafe")'
    )
    offsets = ", ".join(f"unsafe.Offsetof({struct}{{}}.{name})" for name in fields)
    lines = f"fmt.Println(unsafe.Sizeof({struct}{{}}), {offsets})"
    program = write(folder, f"{text}\nfunc main() {{ {lines} }}\n", "main.go")
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
    run = subprocess.run(
        [GO, "run", str(program)], capture_output=True, text=True, check=True, env=environment
    )
    return [int(number) for number in run.stdout.split()]


def ours(shape: Shape) -> list[int]:
    return [shape.region.sizeof, *(f.offset for f in shape.region.fields)]


@needs_go
def test_go_places_the_mirror_so(tmp_path: Path) -> None:
    shape = read_go(write(tmp_path, MIRROR, "spec.go"))
    fields = [f.name for f in shape.region.fields]
    assert go_says(tmp_path, MIRROR, "sharedRegionT", fields) == ours(shape)


@needs_go
def test_go_places_every_type_so(tmp_path: Path) -> None:
    text = """package mirror
import "unsafe"
import "sync/atomic"
type small struct { a int8; b int16; c int8 }
type empty struct{}
type all struct {
	a bool; b uint16; c small; d byte; e *small; f string; g []byte; h float32; i float64
	j [3]small; k rune; l uintptr; m atomic.Int32; n atomic.Uint64; o map[string]int
	p func(int) string
	q [2][3]uint16; r int; s struct { x uint8; y uint32 }; t chan int; u atomic.Bool
	v unsafe.Pointer
	w [0]uint64; x empty; y int8; z empty
}
"""
    shape = read_go(write(tmp_path, text, "spec.go"), struct="all")
    assert go_says(tmp_path, text, "all", list("abcdefghijklmnopqrstuvwxyz")) == ours(shape)


_GO_TYPES = st.sampled_from(
    [
        "int8",
        "uint16",
        "int32",
        "uint64",
        "bool",
        "[3]byte",
        "pair",
        "[2]pair",
        "[5]int32",
        "string",
    ]
)


@needs_go
@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(structs=st.lists(st.lists(_GO_TYPES, min_size=1, max_size=8), min_size=20, max_size=40))
def test_our_rules_are_gos(tmp_path: Path, structs: list[list[str]]) -> None:
    text = 'package mirror\nimport "unsafe"\ntype pair struct { a int8; b int16 }\n'
    for index, types in enumerate(structs):
        members = "; ".join(f"m{i} {kind}" for i, kind in enumerate(types))
        text += f"type s{index} struct {{ {members} }}\n"
    members = "; ".join(f"f{i} s{i}; c{i} byte" for i in range(len(structs)))
    text += f"type all struct {{ {members} }}\n"
    shape = read_go(write(tmp_path, text, "spec.go"), struct="all")
    assert go_says(tmp_path, text, "all", [f.name for f in shape.region.fields]) == ours(shape)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("package a", "declares no struct shared_region_t"),
        ("type sharedRegionT struct { a Other }", "its type Other is not declared in this file"),
        ("type sharedRegionT struct { a C.sem_t }", "its type C.sem_t is not declared"),
        ("type sharedRegionT struct { a [n]int }", "array bound: n is not defined"),
        ("type sharedRegionT struct { a [1-2]int }", "array bound is -1"),
        ("type sharedRegionT struct { a sharedRegionT }", "holds itself"),
        ("type sharedRegionT struct { a, }", "cannot read its member"),
        ("type sharedRegionT struct { a int", "does not end"),
        ("type sharedRegionT struct { a [1<<50]int }", "larger than"),
        ("type sharedRegionT struct { a" + " struct { a" * 300 + " int" + "}" * 301, "too deeply"),
        ("type a b; type b a; type sharedRegionT struct { x a }", "goes round in a circle"),
        ("type SharedRegion struct{a int}\ntype sharedRegionT struct{a int}", "no struct"),
    ],
)
def test_what_is_not_understood_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ShapeError, match=message) as error:
        read_go(write(tmp_path, text, "spec.go"))
    assert "spec.go" in str(error.value)


def test_members_that_double_are_placed_once(tmp_path: Path) -> None:
    text = "type sharedRegionT struct { a0, b0 " + "".join(
        f"struct {{ a{i}, b{i} " for i in range(1, 16)
    )
    shape = read_go(write(tmp_path, text + "int32" + "}" * 16, "spec.go"))
    assert shape.region.sizeof == 4 << 16


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damaged_mirrors_never_crash(tmp_path: Path, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(MIRROR)))
    length = data.draw(st.integers(0, 60))
    junk = data.draw(st.text(alphabet="{}()[];,*`\"'/.= \n_aZ019", max_size=12))
    path = write(tmp_path, MIRROR[:start] + junk + MIRROR[start + length :], "spec.go")
    try:
        read_go(path)
    except HamiCacheError as error:
        assert "\n" not in str(error)
