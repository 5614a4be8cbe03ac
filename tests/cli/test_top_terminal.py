"""``hami-cache top`` in a real pseudo terminal: what it draws, and how it leaves."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_cache.testing import ContainerTree
from tests.cli.top_node import node

PROGRAM = "import sys; from hami_cache.cli.main import main; sys.exit(main(sys.argv[1:]))"
ALTERNATE, BACK = b"\x1b[?1049h", b"\x1b[?1049l"
"""The terminal's second screen: entered at the start, left at the end."""


class Terminal:
    """The program, and the terminal it runs in."""

    def __init__(self, tree: ContainerTree, *more: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 200, 0, 0))
        self.before = termios.tcgetattr(self._master)
        pods = f"file:{tree.pods_json}"
        arguments = ["top", "--hook-path", str(tree.root), "--pods", pods, *more]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdin=slave, stdout=slave, stderr=slave,
            env=environment(),
        )  # fmt: skip
        os.close(slave)
        self.drawn = b""

    def until(self, text: str) -> None:
        """Read until the text was drawn since this was last called."""
        self.drawn = b""
        while text not in plain(self.drawn):
            assert self._read(), plain(self.drawn)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def end(self) -> int:
        """Wait for the end, reading what is drawn until then."""
        while self._read():
            pass
        return self.process.wait()

    def _read(self) -> bool:
        """Read a little more; False when nobody has the terminal open any more."""
        try:
            self.drawn += os.read(self._master, 65536)
        except OSError:
            return False
        return True

    @property
    def after(self) -> list[object]:
        """How the terminal is set now."""
        return termios.tcgetattr(self._master)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


def environment() -> dict[str, str]:
    """Without the size that a parallel test runner claims for its own terminal."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return {**kept, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}


def plain(drawn: bytes) -> str:
    """What was drawn without the terminal's own language."""
    return re.sub(r"\x1b\[[0-9;?<>=]*[A-Za-z]", "", drawn.decode(errors="ignore"))


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(node(tmp_path / "hook"), "--interval", "200ms")
    yield opened
    opened.close()


def test_it_draws_the_node_answers_keys_and_leaves_the_terminal_as_it_was(
    terminal: Terminal,
) -> None:
    terminal.until("team-a/busy")
    drawn = plain(terminal.drawn)
    assert ALTERNATE in terminal.drawn
    assert "14.00 GiB" in drawn and "unknown_layout" in drawn
    assert terminal.after != terminal.before
    terminal.press("r")
    terminal.until("by pod ▼")
    terminal.press("\r")
    terminal.until("71")
    terminal.press("q")
    assert terminal.end() == 0
    assert BACK in terminal.drawn
    assert terminal.after == terminal.before
    assert "Traceback" not in plain(terminal.drawn)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was(terminal: Terminal, number: signal.Signals) -> None:
    terminal.until("team-a/busy")
    terminal.process.send_signal(number)
    assert terminal.end() == 0
    assert BACK in terminal.drawn and terminal.after == terminal.before


def test_ctrl_c_ends_it(terminal: Terminal) -> None:
    terminal.until("team-a/busy")
    terminal.press("\x03")
    assert terminal.end() == 0
    assert terminal.after == terminal.before
