"""docs/cli.md and the manual page: fresh, complete, and readable by those who read them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from hami_cache.cli import manpage, reference, reference_page
from hami_cache.cli.main import COMMANDS, hami_cache


@pytest.fixture(autouse=True)
def no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HAMI_CACHE_BUILD_DATE", raising=False)


def test_the_page_is_fresh() -> None:
    """Else: python -m hami_cache.cli.reference_page."""
    assert reference_page.main(["--check"]) == 0


def test_a_stale_page_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "cli.md"
    assert reference_page.main(["--check", str(page)]) == 1
    assert reference_page.main([str(page)]) == 0
    assert reference_page.main(["--check", str(page)]) == 0
    page.write_text(page.read_text() + "more")
    assert reference_page.main(["--check", str(page)]) == 1
    assert "stale" in capsys.readouterr().err


def test_every_command_is_there_with_every_option() -> None:
    known = {command.name: command for command in reference.commands()}
    assert {name.partition(" ")[0] for name in known} == set(COMMANDS)
    assert {"layout list", "layout check"} <= set(known)
    page, manual = reference_page.page(), manpage.page().replace(r"\-", "-")
    with click.Context(hami_cache) as top:
        for name, command in known.items():
            found: click.Command | None = hami_cache
            for word in name.split():
                assert isinstance(found, click.Group)
                found = found.get_command(top, word)
            assert found is not None
            written = " ".join(command.options)
            for parameter in found.params:
                if isinstance(parameter, click.Option) and not parameter.hidden:
                    assert all(option in written for option in parameter.opts), name
            assert f"</a>hami-cache {name}\n" in page
            assert f"\n.SS {name} {command.usage}\n" in manual
            for option in command.options:
                assert f"| `{option.replace('|', chr(92) + '|')}` |" in page
                assert f"\n.B {option}\n" in manual


def test_variables_say_what_they_stand_for() -> None:
    variables = reference.variables()
    assert variables["HOOK_PATH"] == "stands for --hook-path"
    assert set(reference.OTHER_VARIABLES) < set(variables)


def test_text_cannot_become_markup() -> None:
    """Placeholders in help texts look like tags, and stars and bars like Markdown."""
    outside_code = re.sub(r"`[^`]*`|<!--.*-->|<a id=\"[\w-]+\"></a>", "", reference_page.page())
    assert r"containers/\<podUID\>\_\<container\>/\*.cache" in outside_code
    assert re.findall(r"(?<!\\)[<*_]", "\n".join(
        line for line in outside_code.splitlines() if not line.startswith("    ")
    )) == []  # fmt: skip


def test_the_manual_is_made_with_version_and_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAMI_CACHE_BUILD_DATE", "2026-01-02")
    monkeypatch.chdir(tmp_path)
    assert manpage.main([]) == 0
    first = Path("hami-cache.1").read_text().splitlines()[0]
    assert re.fullmatch(
        r'\.TH HAMI-CACHE 1 "2026\\-01\\-02" "hami\\-cache [\d.]+\S*" "User Commands"', first
    )


def test_no_line_of_text_is_a_request() -> None:
    known = {"TH", "SH", "SS", "PP", "TP", "B"}
    requests = {
        line.split()[0][1:] for line in manpage.page().splitlines() if line[:1] in (".", "'")
    }
    assert requests == known
    assert manpage._line(".so /etc/passwd") == r"\&.so /etc/passwd"
    assert manpage._line(r"a\b") == r"a\eb"


@pytest.mark.parametrize(
    "command", [("mandoc", "-Tlint", "-Werror"), ("groff", "-man", "-ww", "-z")], ids=lambda c: c[0]
)
def test_it_is_a_manual_page_without_fault(command: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here")
    page = tmp_path / "hami-cache.1"
    manpage.main([str(page)])
    done = subprocess.run([*command, page], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(shutil.which("man") is None, reason="no man here")
def test_man_shows_it(tmp_path: Path) -> None:
    page = tmp_path / "hami-cache.1"
    manpage.main([str(page)])
    shown = subprocess.run(
        ["man", "-P", "cat", "-l", page], capture_output=True, text=True, check=True,
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "200", "LC_ALL": "C.UTF-8"},
    ).stdout  # fmt: skip
    text = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", shown)
    assert "layout check [OPTIONS]" in text and "--host-proc PATH" in text
    assert "containers/<podUID>_<container>/*.cache" in text
