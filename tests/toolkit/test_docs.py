"""What docs/layout-tools.md shows is what the commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hami_cache.cli.main import main
from hami_cache.spec import registry
from hami_cache.toolkit.render import TARGETS, render
from tests.toolkit.headers import header_of, replaced, write

KNOWN = registry.layouts()
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "layout-tools.md").read_text()


def shown_after(command: str) -> list[str]:
    """The lines that the page shows under a command, without rules, dots and compiler."""
    block = PAGE.split(f"$ hami-cache {command}", 1)[1].split("```", 1)[0]
    lines = [" ".join(line.split()) for line in block.split("\n")[1:]]
    return [line for line in lines if re.match(r"[\w!]", line) and "offsets by" not in line]


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_the_check_of_a_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = header_of(KNOWN["v1.2"])
    changed = replaced(text, "    uint64_t device_num;", "    uint64_t flags, device_num;")
    path = write(tmp_path, changed, "multiprocess_memory_limit.h")
    command = ["layout", "check", "--header", str(path), "--against", "v1.2", "--cc", "none"]
    assert main(command) == 1
    shown = shown_after("layout check --header src")
    assert len(shown) == 8
    assert set(shown) <= set(printed(capsys))


def test_the_check_of_a_mirror(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = render(KNOWN["v1"], "go")
    for old, new in (
        ("OwnerPid          uint64", "OwnerPid uint32"),
        ("Sem               [4]uint64", "Sem [32]byte"),
        ("DeviceNum         uint64", "num uint64"),
    ):
        text = replaced(text, old, new)
    path = write(tmp_path, text, "spec.go")
    assert main(["layout", "check", "--go", str(path), "--against", "v1"]) == 1
    shown = shown_after("layout check --go")
    assert len(shown) == 6
    assert set(shown) <= set(printed(capsys))


def test_the_warning_of_a_diff(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["layout", "diff", "v1", "v1-seqlock"]) == 1
    [warning] = shown_after("layout diff v1 v1-seqlock")
    assert warning in printed(capsys)


def test_every_target_is_listed() -> None:
    assert re.findall(
        r"^\| `(\w+)` \|", PAGE.split("## Reading a layout")[1].split("\n## ")[0], re.M
    ) == list(TARGETS)
