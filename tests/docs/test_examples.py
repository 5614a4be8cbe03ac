"""Every shell and Python example of README.md and docs/ runs, and prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import files
from tests.docs.examples import Example, agree, blocks, examples, run_commands, run_python

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BARE_COMMAND = re.compile(r"^(hami-cache|make|pip|pipx|helm|kubectl) [^\[\n]*$", re.MULTILINE)
"""A command outside a ``console`` block; brackets make it a synopsis, which nobody can run."""

WITH_EXAMPLES = [page for page in PAGES if examples(page)]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.name)
def test_examples_do_what_the_page_says(page: Path, tmp_path: Path) -> None:
    """One folder a page: what an example leaves there, later ones find."""
    with files.prepared(page.name, tmp_path):
        for example in examples(page):
            check = check_python if example.is_python else check_commands
            check(example, tmp_path)


def check_python(example: Example, folder: Path) -> None:
    ran = run_python(example, folder, files.PLACES)
    where = f"{example.page.name}:{example.line}"
    assert ran.returncode == 0, f"{where}\n{ran.stdout}{ran.stderr}"


def check_commands(example: Example, folder: Path) -> None:
    steps = [step for step in example.steps() if files.reason_to_skip(step.command) is None]
    for step, status, printed in run_commands(steps, folder, files.PLACES):
        output = "\n".join(printed)
        where = f"{example.page.name}:{example.line}\n$ {step.command}\n{output}"
        assert "Traceback" not in output, where
        if step.shown:
            assert agree(step.shown, printed), where
        refusal_is_shown = any(line.startswith("hami-cache: ") for line in step.shown)
        assert status in ((2,) if refusal_is_shown else (0, 1)), where


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_example_escapes(page: Path) -> None:
    """Shell is written as ``console`` with prompts, and code is always fenced."""
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        assert block.language not in {"sh", "shell", "bash", "py", "pycon"}, where
        assert block.language or not BARE_COMMAND.search(block.text), f"{where}: no prompt"
        if block.language == "console" or re.search(r"^\$ ", block.text, re.MULTILINE):
            assert block.language == "console", f"{where}: call it console"
            assert block.text.startswith("$ "), where
    outside = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    indented = re.findall(r"\n\n {4}(?![-*\d ])([^\[\n]+)\n", outside)
    assert indented == [], "indented code is not run"


def test_nothing_is_skipped_in_vain() -> None:
    commands = [
        step.command
        for page in WITH_EXAMPLES
        for example in examples(page)
        if not example.is_python
        for step in example.steps()
    ]
    assert [how for how in files.SKIPPED if not any(re.match(how, c) for c in commands)] == []


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (["a  b", "── ──"], ["a b", "─ ─────", ""], True),
        (["a", "...", "z"], ["a", "b", "c", "z"], True),
        (["a", "...", "z"], ["a", "z"], True),
        (["...", "z"], ["a", "z"], True),
        (["...", "z"], ["z"], True),
        (["a", "..."], ["a"], True),
        (["by gcc ... for x"], ["by gcc (Debian 12) 12.2 for x"], True),
        (["a (b)"], ["a [b]"], False),
        (["a"], ["a", "b"], False),
        (["a", "b"], ["a"], False),
        (["a", "...", "z"], ["a", "b"], False),
    ],
)
def test_agreement(shown: list[str], printed: list[str], same: bool) -> None:
    assert agree(tuple(shown), printed) is same
