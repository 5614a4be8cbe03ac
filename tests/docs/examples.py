"""The examples of a page: fenced blocks of commands or Python, run as a reader would run them.

A block is an example when its language is ``python``, or when one of its lines begins with ``$ ``.
Lines below a command are what it prints: compared without regard to blanks, and ``...`` or ``…``
stands for anything (alone on a line: for any number of lines).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

_FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_ANYTHING = re.compile(r"\.\.\.|…")
_DONE = "\x1e"


@dataclass(frozen=True)
class Step:
    """One command with the lines that the page shows below it."""

    command: str
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Example:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def is_python(self) -> bool:
        return self.language == "python"

    def steps(self) -> list[Step]:
        """The commands of a block; one that ends in a backslash goes on in the next line."""
        steps: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            elif not steps:
                raise ValueError(f"{self.page.name}:{self.line}: output before the first command")
            elif steps[-1][0].endswith("\\") and not steps[-1][1]:
                steps[-1] = (f"{steps[-1][0]}\n{line}", [])
            else:
                steps[-1][1].append(line)
        return [Step(command, tuple(shown)) for command, shown in steps]


def blocks(page: Path) -> Iterator[Example]:
    """Every fenced block of a page, whatever its language."""
    text = page.read_text()
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Example(page, line, found[2], dedent(found[3]))


def examples(page: Path) -> list[Example]:
    """The blocks of a page that can be run."""
    return [
        block
        for block in blocks(page)
        if block.is_python or re.search(r"^\$ ", block.text, re.MULTILINE)
    ]


def agree(shown: tuple[str, ...], printed: list[str]) -> bool:
    """Whether output is what a page shows."""
    wanted = r"\n".join(_line_pattern(line) for line in map(_squeezed, shown) if line)
    got = "\n".join(line for line in map(_squeezed, printed) if line)
    # A line of dots stands for no line, too: then its line break is not there either.
    wanted = wanted.replace(rf"\n{_LINES}", rf"(?:\n{_LINES})?")
    wanted = re.sub(rf"^{re.escape(_LINES)}\\n", lambda _: rf"(?:{_LINES}\n)?", wanted)
    return re.fullmatch(wanted, got) is not None


_LINES = r"(?:[^\n]*(?:\n[^\n]*)*?)"


def _line_pattern(line: str) -> str:
    if _ANYTHING.fullmatch(line):
        return _LINES
    return "[^\n]*".join(map(re.escape, _ANYTHING.split(line)))


def _squeezed(line: str) -> str:
    """A line without the blanks and rules by which a table is laid out."""
    return " ".join(re.sub(r"─+", "─", line).split())


def environment(folder: Path) -> dict[str, str]:
    """That of a reader with an empty home, whose shell finds this installation first."""
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "COLUMNS": "110",
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "MOCK_NVML_CONFIG": "config.yaml",
        "MOCK_NVML_PODRESOURCES_SOCKET": "kubelet.sock",
    }


def run_commands(
    steps: list[Step], folder: Path, places: Mapping[str, str]
) -> Iterator[tuple[Step, int, list[str]]]:
    """Run the commands of one block in one shell.

    Args:
        steps: they share the shell's variables.
        folder: where they run.
        places: paths of a real node, and what stands for them in `folder`.

    Yields:
        Each command with its exit status and all lines that it printed.
    """
    script = ["exec 2>&1"]
    for step in steps:
        script += [_here(step.command, places), f"printf '\\n{_DONE}%s\\n' $?"]
    ran = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    parts = re.split(rf"\n{_DONE}(\d+)\n", ran.stdout)
    assert len(parts) == 2 * len(steps) + 1, ran.stdout
    for step, printed, status in zip(steps, parts[::2], parts[1::2], strict=False):
        yield step, int(status), printed.splitlines()


def _here(text: str, places: Mapping[str, str]) -> str:
    for there, here in places.items():
        text = text.replace(there, here)
    return text


def run_python(
    example: Example, folder: Path, places: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a block of Python: a program, a named file (``# conftest.py``) or tests for pytest."""
    name = re.match(r"# (\w+\.py)\n", example.text)
    tests = re.search(r"^def test_", example.text, re.MULTILINE)
    file = folder / (name[1] if name else "test_page.py" if tests else "example.py")
    file.write_text(_here(example.text, places))
    plain = [sys.executable, str(file)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    return subprocess.run(
        command if tests else plain,
        cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=90,
    )  # fmt: skip
