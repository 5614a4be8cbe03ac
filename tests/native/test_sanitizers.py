"""The C reader under sanitizers, fed hostile regions and tables; `make fuzz` takes longer."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path

import pytest

from hami_cache import layouts
from hami_cache.testing.writers import writer_table

pytestmark = pytest.mark.fuzz

NATIVE = Path(__file__).resolve().parents[2] / "native"
SOURCES = [*sorted(NATIVE.glob("*.c")), NATIVE / "testing" / "fuzz_reader.c"]
FLAGS = ("-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread")
LONG = bool(os.environ.get("HAMI_CACHE_FUZZ"))
SECONDS = 60 if LONG else 1
SEED = secrets.randbelow(2**32) if LONG else 1

SANITIZERS = {
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "thread": ("-fsanitize=thread", "-Wno-tsan"),
}


def compiler() -> str:
    return os.environ.get("CC", "cc")


def build(target: Path, flags: tuple[str, ...]) -> Path:
    probe = target.with_name("probe.c")
    probe.write_text("int main(void) { return 0; }\n")
    command = [compiler(), *flags, "-pthread", "-o", str(target)]
    if subprocess.run([*command, str(probe)], capture_output=True, check=False).returncode:
        pytest.skip(f"{compiler()} has no runtime for {flags[0]}")
    subprocess.run([*command, *FLAGS, *map(str, SOURCES)], check=True)
    return target


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_hostile_regions_and_tables_find_nothing(sanitizer: str, tmp_path: Path) -> None:
    tables = []
    for name, layout in layouts().items():
        tables.append(tmp_path / f"{name}.table")
        tables[-1].write_text(writer_table(layout))
    program = build(tmp_path / "fuzz_reader", SANITIZERS[sanitizer])
    done = subprocess.run(
        [program, str(SECONDS), str(SEED), *tables],
        capture_output=True,
        text=True,
        timeout=60 + 2 * SECONDS,
        env=os.environ | {"TSAN_OPTIONS": "halt_on_error=1"},
    )
    assert done.returncode == 0, f"seed {SEED}: {done.stderr[-5000:]}"
    inputs, _, passes, *_ = done.stdout.split()
    assert min(int(inputs), int(passes)) >= 2


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_reader_compiles_for_both_machines_without_a_warning(machine: str) -> None:
    cross = f"{machine}-linux-gnu-gcc"
    if shutil.which(cross) is None:
        pytest.skip(f"no {cross}: Debian has it in gcc-{machine.replace('_', '-')}-linux-gnu")
    subprocess.run([cross, *FLAGS, "-O3", "-fsyntax-only", *map(str, SOURCES)], check=True)
