"""``hami-cache completion``: real shells complete commands, options, layouts and files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hami_cache.cli.main import COMMANDS, main
from hami_cache.spec import registry

SHELLS = ("bash", "zsh", "fish")

BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
compopt() { echo compopt "$@"; }
_hami_cache_completion hami-cache
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""What readline does with the words of a line: calls the function, and reads its variable."""


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    """This environment's program first."""
    beside = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{beside}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("HAMI_CACHE_LAYOUTS", raising=False)


def script(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", shell]) == 0
    file = folder / f"complete.{shell}"
    file.write_text(capsys.readouterr().out)
    return file


def run(*command: object) -> list[str]:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_accepts_its_script(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = script(shell, tmp_path, capsys)
    assert "_HAMI_CACHE_COMPLETE" in file.read_text()
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    assert run(shell, "-n", file) == []


@pytest.mark.usefixtures("path")
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = script("bash", tmp_path, capsys)

    def complete(*words: str) -> list[str]:
        return run("bash", "-c", BASH, "bash", file, "hami-cache", *words)

    assert complete("in") == ["inspect"]
    assert complete("inspect", "--off") == ["--offline"]
    assert complete("inspect", "--layout", "") == sorted(registry.layouts())
    assert complete("layout", "show", "v1-s") == ["v1-sem", "v1-seqlock"]
    assert complete("layout", "diff", "v1-sem", "v1.") == ["compopt -o default", "v1.2"]
    assert complete("doctor", "x.c") == ["compopt -o default", ""]
    assert complete("completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.usefixtures("path")
@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
def test_fish_completes_with_help(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = script("fish", tmp_path, capsys)
    ask = 'source $argv[1]; complete -C "hami-cache ins"'
    assert run("fish", "--no-config", "-c", ask, file) == [f"inspect\t{COMMANDS['inspect'][1]}"]


@pytest.mark.usefixtures("path")
def test_own_layouts_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "v9.toml").touch()
    assert "plain,v9" in asked("inspect --layout v", 3, HAMI_CACHE_LAYOUTS=str(tmp_path))
    # A folder that is not there is told by the commands, not in the middle of a line.
    assert "plain,v1.2" in asked("inspect --layout v", 3, HAMI_CACHE_LAYOUTS="/nowhere")


def asked(words: str, at: int, **more: str) -> list[str]:
    """What the program answers to bash's script."""
    environment = {
        **os.environ, "_HAMI_CACHE_COMPLETE": "bash_complete",
        "COMP_WORDS": f"hami-cache {words}", "COMP_CWORD": str(at), **more,
    }  # fmt: skip
    done = subprocess.run(
        ["hami-cache"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.usefixtures("path")
def test_every_command_can_be_completed() -> None:
    assert asked("", 1) == [f"plain,{name}" for name in sorted(COMMANDS)]
    assert "plain,--version" in asked("--", 1)


def test_commands_are_completed_without_loading_them() -> None:
    program = (
        "import sys, click\n"
        "from hami_cache.cli.main import hami_cache\n"
        "with click.Context(hami_cache) as context:\n"
        "    found = hami_cache.shell_complete(context, '')\n"
        "print(len(found), *[n for n in sys.modules if n.startswith('hami_cache.')])\n"
    )
    [line] = run(sys.executable, "-c", program)
    count, *loaded = line.split()
    assert int(count) == len(COMMANDS)
    assert sorted(loaded) == ["hami_cache.cli", "hami_cache.cli.main", "hami_cache.errors"]
