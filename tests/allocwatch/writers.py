"""Programs that write an override file, for tests that need real processes.

Each is run as ``python -m tests.allocwatch.writers NAME FILE ...``.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

from hami_cache.allocwatch import overrides
from hami_cache.allocwatch.reconcile import Memory, Reading


def watcher(file: Path, index: str, rounds: str) -> None:
    """Publish the round's number as the used memory of one device, round by round."""
    for number in range(1, int(rounds) + 1):
        overrides.publish(file, [Reading(int(index), Memory(number, 0))])


def ctl(file: Path, rounds: str) -> None:
    """Another program of the protocol, written without ours: count up a member of `all`."""
    for _ in range(int(rounds)):
        with open(f"{file}.lock", "a+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            document = yaml.safe_load(file.read_text()) if file.exists() else {}
            everywhere = document.setdefault("all", {})
            everywhere["count"] = everywhere.get("count", 0) + 1
            temporary = file.with_name(".overrides-ctl.tmp")
            temporary.write_text(yaml.safe_dump(document))
            temporary.rename(file)


def killed_at_every_line(file: Path) -> None:
    """Publish again and again, killed at the first line, the second, and so on, to the last.

    Prints, for each child, the line at which it died and the device's used memory in the file.
    """
    overrides.publish(file, [Reading(0, Memory(1, 0))])
    at = 0
    died = True
    while died:
        at += 1
        child = os.fork()
        if child == 0:
            sys.settrace(_Killer(at))
            overrides.publish(file, [Reading(0, Memory(2, 0))])
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        died = os.WIFSIGNALED(status)
        print(at, yaml.safe_load(file.read_text())["devices"]["0"]["memory"]["used_bytes"])
        # Nothing of the dead is in the way of the next: not its lock, not its temporary file.
        overrides.publish(file, [Reading(0, Memory(1, 0))])


class _Killer:
    """Kills this process as the n-th line is about to run, those that read YAML not counted."""

    def __init__(self, lines: int) -> None:
        self._left = lines

    def __call__(self, frame: FrameType, event: str, argument: Any) -> _Killer | None:
        if "yaml" in frame.f_code.co_filename:
            return None
        if event == "line":
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


if __name__ == "__main__":
    programs: dict[str, Callable[..., None]] = {
        "watcher": watcher,
        "ctl": ctl,
        "killed": killed_at_every_line,
    }
    programs[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
