"""GPUs that are not there: builds `native/testing/fake_nvml.c` and writes its scripts.

Two ways to use it. `FakeNvml.loaded` serves this process: glibc answers
``dlopen("libnvidia-ml.so.1")`` with a library of that soname that is already loaded, so loading
ours first is all that nvidia-ml-py needs; it stays loaded until the process ends, and without a
script it then says that no driver is there. `FakeNvml.environment` serves a child process, which
can also be given a variant of the library, or none at first.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hami_cache.testing.sources import source

SOURCE = source("fake_nvml.c")
SONAME = "libnvidia-ml.so.1"
SCRIPT_VARIABLE = "HAMI_FAKE_NVML"

GIB = 1 << 30


@functools.cache
def library(*defines: str) -> Path:
    """The compiled library, built once per session; the head of the C file has the variants."""
    folder = Path(tempfile.mkdtemp(prefix="fake-nvml-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = folder / SONAME
    flags = "-std=c11 -Wall -Wextra -Wpedantic -Werror -O1 -fvisibility=hidden -fPIC -shared"
    compiler = os.environ.get("CC", "cc")
    command = [compiler, *flags.split(), f"-Wl,-soname,{SONAME}", *(f"-D{d}" for d in defines)]
    subprocess.run([*command, "-o", str(target), str(SOURCE), "-lpthread"], check=True)
    return target


@dataclass(frozen=True)
class Gpu:
    """A GPU, or with `slices` empty a MIG device of one, as the script describes it.

    Attributes:
        uuid: may hold any byte; written escaped.
        name: likewise.
        total: memory in bytes.
        used: bytes.
        utilization: GPU and memory controller, percent.
        board: temperature in Celsius, power in milliwatts, uncorrected ECC errors.
        mig: MIG mode, 0 or 1.
        processes: (pid, bytes).
        samples: (pid, time stamp, SM percent).
        returns: per exported symbol the answers in order, ``CODE`` or ``CODE:COUNT``; the last
            repeats.
        slices: the MIG devices.
        extra: further lines of the script, such as ``lost``.
    """

    uuid: str | bytes = "GPU-00000000-0000-0000-0000-000000000000"
    name: str | bytes = "Tesla T4"
    total: int = 16 * GIB
    used: int = 0
    utilization: tuple[int, int] = (0, 0)
    board: tuple[int, int, int] = (30, 10_000, 0)
    mig: int = 0
    processes: Sequence[tuple[int, int]] = ()
    samples: Sequence[tuple[int, int, int]] = ()
    returns: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    slices: Sequence[Gpu] = ()
    extra: Sequence[str] = ()

    def lines(self, kind: str = "device") -> Iterator[str]:
        """This GPU as lines of the script."""
        yield kind
        yield f"uuid {_escaped(self.uuid)}"
        yield f"name {_escaped(self.name)}"
        yield f"memory {self.total} {self.used}"
        yield "utilization {} {}".format(*self.utilization)
        yield "temperature {}\npower {}\necc {}".format(*self.board)
        yield f"mig {self.mig}"
        yield from (f"process {pid} {size}" for pid, size in self.processes)
        yield from (f"sample {pid} {stamp} {sm}" for pid, stamp, sm in self.samples)
        yield from _returns(self.returns)
        yield from self.extra
        for mig_device in self.slices:
            yield from mig_device.lines("slice")


class Call(NamedTuple):
    """One call the library saw; `device` and `slice` are -1 where there is none."""

    name: str
    device: int
    slice: int
    buffer: int
    room: int
    code: int


class FakeNvml:
    """The script of one machine.

    Args:
        folder: where the script and what the library leaves beside it go.
    """

    def __init__(self, folder: Path) -> None:
        self.script = folder / "nvml.script"
        self._calls = folder / "nvml.script.calls"
        self._calls.touch()

    def write(
        self, *gpus: Gpu, returns: Mapping[str, Sequence[int | str]] | None = None, hang: str = ""
    ) -> None:
        """Replace the machine at once; `returns` and `hang` are for calls that concern no GPU."""
        head = [*_returns(returns or {}), *([f"hang {hang}"] if hang else [])]
        lines = [*head, *(line for gpu in gpus for line in gpu.lines())]
        fresh = self.script.with_suffix(".new")
        fresh.write_text("\n".join(lines) + "\n")
        fresh.replace(self.script)

    def remove(self) -> None:
        """Take the driver away: from the next nvmlInit on it is not loaded."""
        self.script.unlink()

    def calls(self, name: str = "") -> list[Call]:
        """Every call since `forget_calls`, or those of one symbol."""
        rows = (line.split() for line in self._calls.read_text().splitlines())
        calls = [Call(row[0], *map(int, row[1:])) for row in rows]
        return [c for c in calls if not name or c.name == name]

    def forget_calls(self) -> None:
        """Start the record of calls afresh."""
        self._calls.write_text("")

    def hung(self) -> bool:
        """Whether a call was caught in a ``hang``."""
        return self.script.with_name(self.script.name + ".hung").exists()

    def held(self) -> bool:
        """Whether this process holds the control file open, as it does with NVML initialised."""
        wanted = f"{self.script}.ctl"
        return wanted in {_target(fd) for fd in Path("/proc/self/fd").iterdir()}

    def environment(self, folder: Path | None = None) -> dict[str, str]:
        """Variables for a child process; `folder` holds its library (default: the plain one)."""
        where = str(folder or library().parent)
        return {**os.environ, "LD_LIBRARY_PATH": where, SCRIPT_VARIABLE: str(self.script)}

    @classmethod
    @contextmanager
    def loaded(cls, folder: Path) -> Iterator[FakeNvml]:
        """The library loaded into this process, with an empty machine."""
        ctypes.CDLL(str(library()))
        fake = cls(folder)
        fake.write()
        before = os.environ.get(SCRIPT_VARIABLE)
        os.environ[SCRIPT_VARIABLE] = str(fake.script)
        try:
            yield fake
        finally:
            if before is None:
                del os.environ[SCRIPT_VARIABLE]
            else:
                os.environ[SCRIPT_VARIABLE] = before


def _returns(returns: Mapping[str, Sequence[int | str]]) -> Iterator[str]:
    for call, answers in returns.items():
        yield f"return {call} {' '.join(map(str, answers))}"


def _escaped(text: str | bytes) -> str:
    raw = text.encode() if isinstance(text, str) else text
    return "".join(chr(b) if 0x20 < b < 0x7F and b != 0x25 else f"%{b:02X}" for b in raw)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""
