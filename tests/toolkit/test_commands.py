"""``hami-cache layout check|diff|new|import|export``: output, exit codes, files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hami_cache.cli.main import main
from hami_cache.spec import registry, specfile
from hami_cache.spec.layout import Layout
from hami_cache.toolkit.render import TARGETS, render
from tests.goldens import LAYOUTS
from tests.toolkit.headers import CC, EVERY_LAYOUT, header_of, needs_cc, replaced, write
from tests.toolkit.test_elf import USE

KNOWN = registry.layouts()
OWN = ("--cc", "none")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: object) -> int:
    return main(["layout", *map(str, arguments)])


def changed_header(folder: Path) -> Path:
    """v1.2 with a field more and the version as it was."""
    text = header_of(KNOWN["v1.2"])
    return write(
        folder,
        replaced(text, "    uint64_t device_num;", "    uint64_t flags;\n    uint64_t device_num;"),
    )


def test_an_unchanged_header_passes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "--header", write(here, header_of(KNOWN["v1.2"])), "--against", "v1.2") == 0
    out = capsys.readouterr().out
    assert "shared.h: shared_region_t has 2008952 bytes, version 1.2" in out
    assert "Equal to v1.2." in out


def test_a_changed_header_fails_field_by_field(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check", "--header", changed_header(here), *OWN) == 1
    out = capsys.readouterr().out
    assert "added at 56, 8 bytes" in out
    assert "moved by +8, 56 to 64" in out
    assert "THE VERSION WAS NOT BUMPED: it is still 1.2" in out


def test_the_json_of_a_check(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "--header", changed_header(here), *OWN, "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["against"] == "v1.2"
    assert report["same_as"] == []
    assert not report["passed"]
    assert report["version"] == "1.2"
    assert report["version_bumped"] is False
    assert report["sizeof"] == KNOWN["v1.2"].sizeof + 8
    assert report["magic"] == 19920718
    changes = {change["field"]: change for change in report["changes"]}
    assert changes["flags"]["before"] is None
    assert changes["flags"]["after"] == {
        "name": "flags", "type": "uint64_t", "offset": 56, "size": 8, "count": 1,
    }  # fmt: skip
    assert changes["device_num"]["shift"] == 8
    assert changes["device_num"]["kinds"] == ["moved"]


@needs_cc
def test_a_library(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(here, render(KNOWN["v1.2"], "c") + USE, "lib.c")
    for name, flag in (("with.so", "-g"), ("without.so", "-g0")):
        subprocess.run([CC, "-shared", "-fPIC", flag, "-o", name, str(source)], check=True)
    assert run("check", "--elf", "with.so", "--against", "v1.2") == 0
    assert "Equal to v1.2." in capsys.readouterr().out
    assert run("check", "--elf", "without.so") == 2
    error = capsys.readouterr().err
    assert error.startswith("hami-cache: without.so: has no debug information (")
    assert error.count("\n") == 1


def test_a_mirror(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = render(KNOWN["v1.2"], "go")
    assert run("check", "--go", write(here, text, "spec.go")) == 0
    wrong = replaced(text, "OwnerPid          uint64", "OwnerPid          uint32")
    assert run("check", "--go", write(here, wrong, "spec.go")) == 1
    out = capsys.readouterr().out
    assert "resized, 8 bytes to 4 bytes" in out
    assert (
        "Note: sem is at 24 only because the compiler leaves 4 bytes of padding before it." in out
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check",), "give exactly one source"),
        (("check", "--header", "a.h", "--go", "b.go"), "give exactly one source"),
        (("check", "--header", "nothing.h"), "nothing.h: cannot be read"),
        (("check", "--go", "nothing.go"), "nothing.go: cannot be read"),
        (("check", "--elf", "nothing.so"), "nothing.so: cannot be read"),
        (("check", "--header", "a.h", "--cc", "no-cc"), "no C compiler is called 'no-cc'"),
        (("check", "--header", "a.h", "--against", "v9", *OWN), "no layout is called 'v9'"),
        (("check", "--header", "a.h", "--struct", "other", *OWN), "declares no struct other"),
        (("diff", "v1", "v9"), "no layout is called 'v9'"),
        (("diff", "v1", "nothing.toml"), "nothing.toml"),
        (("diff", "v1", "v1.2", "--svg", "no/where.svg"), "no/where.svg: cannot be written"),
        (("new", "v1.2", "--from", "v1"), "a layout is called v1.2 already"),
        (("new", "v1.3", "--from", "v9"), "no layout is called 'v9'"),
        (("new", "v1.3", "--from", "v1", "-o", "x.toml"), "is called like its layout: v1.3.toml"),
        (("import", "--header", "a.h", *OWN), "nothing to import: this is v1.2"),
        (("import",), "give exactly one source"),
        (("export", "v9", "--to", "c"), "no layout is called 'v9'"),
        (("export", "v1", "--to", "cobol"), "'cobol'"),
        (("export", "v1", "--to", "c", "-o", "no/where.h"), "cannot be written"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    write(here, header_of(KNOWN["v1.2"]), "a.h")
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_diff(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("diff", "v1", "v1-seqlock") == 1
    out = capsys.readouterr().out
    assert "SAME SIZE AND VERSION, BUT DIFFERENT: no header tells v1 and v1-seqlock apart" in out
    assert run("diff", "v1", "v1") == 0
    assert "Every field lies at the same place." in capsys.readouterr().out


def test_the_json_of_a_diff(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("diff", "v1", "v1-seqlock", "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["indistinguishable"] is True
    assert document["equal"] is False
    assert document["before"]["name"] == "v1"
    assert document["after"]["sizeof"] == 2008952
    assert {c["field"] for c in document["changes"] if c["breaks"]} == {
        "procs.seqlock", "procs.used", "procs.monitorused", "procs.device_util", "procs.status",
    }  # fmt: skip


def test_a_diff_as_picture_and_page(here: Path) -> None:
    assert run("diff", "v0", "v1", "--svg", "d.svg", "--html", "d.html", "--json") == 1
    assert (here / "d.svg").read_text().startswith("<svg ")
    assert "<svg " in (here / "d.html").read_text()


def test_a_new_layout_is_known_at_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("new", "v1.3", "--from", "v1.2") == 0
    made = specfile.load(here / "v1.3.toml")
    assert str(made.identity.version) == "1.3"
    assert run("new", "v1.3", "--from", "v1.2") == 2, "never over a file that is there"
    capsys.readouterr()
    assert run("show", "v1.3", "--layouts", here, "--json") == 0
    assert json.loads(capsys.readouterr().out)["sizeof"] == KNOWN["v1.2"].sizeof
    assert run("diff", "v1.2", "v1.3.toml") == 0


def test_an_imported_layout_makes_the_check_pass(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = changed_header(here)
    assert run("import", "--header", header, *OWN) == 2, "v1.2 is taken: the version was not bumped"
    header.write_text(replaced(header.read_text(), "MINOR_VERSION 2", "MINOR_VERSION 3"))
    (here / "mine").mkdir()
    assert run("import", "--header", header, *OWN, "-o", "mine") == 0
    assert (here / "mine" / "v1.3.toml").is_file()
    assert run("check", "--header", header, *OWN) == 1
    capsys.readouterr()
    assert run("check", "--header", header, *OWN, "--layouts", "mine", "--against", "v1.3") == 0
    assert "Equal to v1.3." in capsys.readouterr().out


@needs_cc
def test_an_import_from_a_library(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = render(KNOWN["v1.2"], "c") + USE
    lines = [line for line in text.splitlines() if "_Static_assert" not in line]
    text = replaced("\n".join(lines), "    uint64_t device_num;", "    uint64_t flags, device_num;")
    subprocess.run(
        [CC, "-shared", "-fPIC", "-g", "-o", "lib.so", str(write(here, text, "lib.c"))], check=True
    )
    assert run("import", "--elf", "lib.so") == 2
    assert "give --name" in capsys.readouterr().err
    assert run("import", "--elf", "lib.so", "--name", "next", "-o", "-") == 0
    made = specfile.parse(capsys.readouterr().out.encode(), Path("next.toml"))
    assert made.field("flags").offset == 56
    assert made.field("device_num").offset == 64
    assert made.abi.architectures == ("x86_64",)
    assert made.seqlock == KNOWN["v1.2"].seqlock


@pytest.mark.parametrize("target", TARGETS)
def test_an_export(here: Path, capsys: pytest.CaptureFixture[str], target: str) -> None:
    assert run("export", "v1.2", "--to", target) == 0
    printed = capsys.readouterr().out
    assert printed == render(KNOWN["v1.2"], target)
    assert run("export", "v1.2", "--to", target, "-o", "file") == 0
    assert (here / "file").read_text() == printed


@needs_cc
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_an_export_checks_as_equal(
    here: Path, capsys: pytest.CaptureFixture[str], layout: Layout
) -> None:
    assert run("export", layout.name, "--to", "c", "-o", "region.h") == 0
    assert run("check", "--header", "region.h", "--against", layout.name, "--cc", CC) == 0
    assert f"Equal to {layout.name}." in capsys.readouterr().out


def test_every_layout_is_exported_for_everyone() -> None:
    assert set(LAYOUTS) == set(KNOWN)
    assert {"c", "go", "rust", "kaitai", "imhex", "construct"} <= set(TARGETS)
