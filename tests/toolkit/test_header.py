"""C headers: every judge finds every known layout again; every change is told field by field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from hami_cache.errors import ConfigError, LayoutError
from hami_cache.spec import registry
from hami_cache.spec.layout import Layout, Version
from hami_cache.toolkit.check import Report, check
from hami_cache.toolkit.header import read_header
from hami_cache.toolkit.render import render
from tests.goldens import LAYOUTS
from tests.toolkit.headers import CC, EVERY_LAYOUT, JUDGES, header_of, needs_cc, replaced, write

KNOWN = registry.layouts()


def checked(path: Path, cc: str = "none", against: str | None = None) -> Report:
    return check(read_header(path, cc=cc), KNOWN, against)


@pytest.mark.parametrize("cc", JUDGES)
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_a_real_header_is_its_layout(tmp_path: Path, layout: Layout, cc: str) -> None:
    report = checked(write(tmp_path, header_of(layout)), cc)
    assert report.passed
    assert report.findings == ()
    assert report.same_as == (layout.name,)
    assert report.comparison.changes == ()
    assert report.shape.version == layout.identity.version
    assert report.shape.magic == layout.identity.magic


@pytest.mark.parametrize("cc", JUDGES)
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_an_exported_header_is_its_layout(tmp_path: Path, layout: Layout, cc: str) -> None:
    report = checked(write(tmp_path, render(layout, "c")), cc)
    assert report.passed
    assert report.same_as == (layout.name,)


@pytest.mark.parametrize("cc", JUDGES)
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_a_header_gives_the_very_structs(tmp_path: Path, layout: Layout, cc: str) -> None:
    shape = read_header(write(tmp_path, header_of(layout)), cc=cc)
    assert list(shape.structs) == list(layout.structs)
    for name, struct in layout.structs.items():
        found = shape.structs[name]
        assert (found.sizeof, found.alignof) == (struct.sizeof, struct.alignof)
        for field, want in zip(found.fields, struct.fields, strict=True):
            assert (field.name, field.type) == (want.name, want.type)
            assert (field.ctype, field.offset) == (want.ctype, want.offset)
            assert (field.count, field.array, field.padding) == (
                want.count, want.array, want.padding,
            )  # fmt: skip


class Mutation(NamedTuple):
    """A change somebody makes to the v1.2 header, and what must be said about it."""

    change: Callable[[str], str]
    told: dict[str, str]
    sizeof: int | None = None


def _swap(text: str) -> str:
    first, second = "    uint64_t limit[", "    uint64_t sm_limit["
    return replaced(replaced(replaced(text, first, "@@"), second, first), "@@", second)


SEQLOCK = "    _Atomic uint64_t seqlock;\n"
V12_SIZE = KNOWN["v1.2"].sizeof

MUTATIONS = {
    "seqlock moved": Mutation(
        lambda h: replaced(
            replaced(h, SEQLOCK, ""),
            "hostpid;  // the lock {\n",
            "hostpid;\n    _Atomic uint64_t seqlock;\n",
        ),
        {
            "procs.seqlock": "moved by -1928, 1936 to 8",
            "procs.used": "moved by +8, 8 to 16",
            "procs.monitorused": "moved by +8, 1032 to 1040",
            "procs.device_util": "moved by +8, 1160 to 1168",
            "procs.status": "moved by +8, 1928 to 1936",
        },
    ),
    "field added": Mutation(
        lambda h: replaced(
            h, "    uint64_t device_num;", "    uint64_t flags;\n    uint64_t device_num;"
        ),
        {"flags": "added at 56, 8 bytes", "device_num": "moved by +8, 56 to 64"},
        V12_SIZE + 8,
    ),
    "field added in padding": Mutation(
        lambda h: replaced(
            h, "    uint64_t unused[2];", "    uint64_t lease;\n    uint64_t unused[1];"
        ),
        {"procs.lease": "added at 1944, 8 bytes"},
    ),
    "field removed": Mutation(
        lambda h: replaced(h, SEQLOCK, ""),
        {"procs.seqlock": "removed at 1936, 8 bytes"},
        V12_SIZE - 8 * 1024,
    ),
    "field resized": Mutation(
        lambda h: replaced(h, "_Atomic size_t owner_pid", "_Atomic uint32_t owner_pid"),
        {"owner_pid": "resized, 8 bytes to 4 bytes"},
    ),
    "array bound changed": Mutation(
        lambda h: replaced(
            h, "sm_limit[CUDA_DEVICE_MAX_COUNT]", "sm_limit[2 * CUDA_DEVICE_MAX_COUNT]"
        ),
        {
            "sm_limit": "resized, 16 x 8 bytes to 32 x 8 bytes",
            "procs": "moved by +128, 1856 to 1984",
        },
        V12_SIZE + 128,
    ),
    "constant changed": Mutation(
        lambda h: replaced(h, "(1 << 10)", "(1 << 9)"),
        {"procs": "resized, 1024 x 1960 bytes to 512 x 1960 bytes"},
        V12_SIZE - 512 * 1960,
    ),
    "order swapped": Mutation(
        _swap,
        {"limit": "moved by +128, 1600 to 1728", "sm_limit": "moved by -128, 1728 to 1600"},
    ),
    "same size, other type": Mutation(
        lambda h: replaced(h, "    uint64_t device_num;", "    uint32_t device_num[2];"),
        {"device_num": "uint64_t became uint32_t: 8 bytes became 2 x 4 bytes"},
    ),
    "semaphore gone": Mutation(
        lambda h: replaced(h, "    sem_t sem_postinit;", "    uint64_t sem_postinit[4];"),
        {"sem_postinit": "sem_t became uint64_t"},
    ),
    "renamed": Mutation(
        lambda h: replaced(h, "    int priority;", "    int urgency;"),
        {"priority": "renamed priority to urgency"},
    ),
}


@pytest.mark.parametrize("cc", JUDGES)
@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_a_changed_header_is_told_field_by_field(
    tmp_path: Path, mutation: Mutation, cc: str
) -> None:
    text = mutation.change(header_of(KNOWN["v1.2"]))
    report = checked(write(tmp_path, text), cc, "v1.2")
    told = {change.path: change.detail for change in report.comparison.breaking}
    assert not report.passed
    assert told.items() >= mutation.told.items()
    assert report.shape.region.sizeof == (mutation.sizeof or V12_SIZE)
    assert any("THE VERSION WAS NOT BUMPED" in finding for finding in report.findings)


def test_only_what_changed_is_told(tmp_path: Path) -> None:
    text = MUTATIONS["seqlock moved"].change(header_of(KNOWN["v1.2"]))
    report = checked(write(tmp_path, text))
    assert {c.path for c in report.comparison.changes} == MUTATIONS["seqlock moved"].told.keys()
    assert report.layout.name == "v1.2", "the same version is nearer than fewer differences"


def test_a_bumped_version_is_seen(tmp_path: Path) -> None:
    text = MUTATIONS["field added"].change(header_of(KNOWN["v1.2"]))
    bumped = replaced(text, "#define MINOR_VERSION 2", "#define MINOR_VERSION 3")
    report = checked(write(tmp_path, bumped), against="v1.2")
    assert report.version_bumped is True
    assert not any("BUMPED" in finding for finding in report.findings)
    assert not report.passed, "a new layout is still a difference"


def test_a_size_that_tells_is_said(tmp_path: Path) -> None:
    text = MUTATIONS["field added"].change(header_of(KNOWN["v1.2"]))
    report = checked(write(tmp_path, text))
    assert any("only the file's size tells them apart" in f for f in report.findings)
    assert not report.comparison.indistinguishable


def test_a_version_without_a_change_is_a_finding(tmp_path: Path) -> None:
    text = replaced(header_of(KNOWN["v1.2"]), "MINOR_VERSION 2", "MINOR_VERSION 7")
    report = checked(write(tmp_path, text))
    assert report.findings == ("the version is 1.7, that of v1.2 is 1.2",)
    assert report.same_as == ("v1.2",)


def test_another_magic_is_a_finding(tmp_path: Path) -> None:
    text = replaced(header_of(KNOWN["v1.2"]), "19920718", "19920719")
    report = checked(write(tmp_path, text))
    assert report.findings == ("the magic is 19920719, that of v1.2 is 19920718",)


def test_a_superseded_layout_is_remarked(tmp_path: Path) -> None:
    report = checked(write(tmp_path, header_of(KNOWN["v1-seqlock"])))
    assert report.passed
    assert any("not the current layout (v1.2)" in remark for remark in report.remarks)


def test_the_wrong_layout_asked_for_names_the_right_one(tmp_path: Path) -> None:
    report = checked(write(tmp_path, header_of(KNOWN["v1.2"])), against="v1")
    assert not report.passed
    assert "it is v1.2 instead" in report.remarks
    assert not any("BUMPED" in finding for finding in report.findings)


def test_an_unknown_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="no layout is called 'v9'"):
        checked(write(tmp_path, header_of(KNOWN["v1.2"])), against="v9")


def test_a_constant_from_an_include_beside_the_header(tmp_path: Path) -> None:
    text = header_of(KNOWN["v1.2"])
    start = text.index("#define CUDA_DEVICE_MAX_COUNT")
    end = text.index("#define SHARED_REGION_MAX_PROCESS_NUM")
    write(tmp_path, "#define CUDA_DEVICE_MAX_COUNT 0x10U\n", "static_config.h")
    report = checked(write(tmp_path, text[:start] + text[end:]))
    assert report.passed


def test_a_constant_from_outside(tmp_path: Path) -> None:
    text = header_of(KNOWN["v1.2"]).replace("#define CUDA_DEVICE_MAX_COUNT 16", "//")
    path = write(tmp_path, text)
    shape = read_header(path, cc="none", defines={"CUDA_DEVICE_MAX_COUNT": "16"})
    assert check(shape, KNOWN).passed
    config = write(tmp_path, "#define CUDA_DEVICE_MAX_COUNT 16\n", "deep.h").parent
    path = write(tmp_path, "#include <deep.h>\n" + text)
    assert check(read_header(path, cc="none", folders=[config]), KNOWN).passed


@needs_cc
def test_the_compiler_is_named(tmp_path: Path) -> None:
    shape = read_header(write(tmp_path, header_of(KNOWN["v1"])), cc=CC)
    assert "12" in shape.judge or "gcc" in shape.judge
    assert shape.machines[0] in shape.judge


@needs_cc
def test_cc_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{CC} -O2")
    path = write(tmp_path, header_of(KNOWN["v1"]))
    assert "own arithmetic" not in read_header(path).judge
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ConfigError, match="no C compiler is called 'no-such-compiler'"):
        read_header(path)


def test_without_a_compiler_the_arithmetic_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, header_of(KNOWN["v1"]))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    shape = read_header(path)
    assert "own arithmetic" in shape.judge
    assert check(shape, KNOWN).same_as == ("v1",)


def test_every_layout_keeps_its_version_apart() -> None:
    """The premise of the bump check: same version and size means somebody has to look inside."""
    assert set(LAYOUTS) == set(KNOWN)
    shared = [n for n, layout in KNOWN.items() if layout.identity.version == Version(1, 1)]
    assert len(shared) == 3
