"""The Dockerfile, without an engine to build it: its stages, and that its copies make the wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from hami_cache.monitor.buildinfo import build_info
from tests.deploy.needs import DEPLOY, ROOT
from tests.test_packaging import BUILD, has_setuptools

DOCKERFILE = DEPLOY / "Dockerfile"


class Instruction(NamedTuple):
    name: str
    rest: str


def stages() -> list[list[Instruction]]:
    """The instructions of each stage; what stands before the first FROM is left out."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: list[list[Instruction]] = []
    for line in filter(None, text.splitlines()):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            found.append([])
        if found:
            found[-1].append(Instruction(name, " ".join(rest.split())))
    return found


def only(stage: list[Instruction], name: str) -> str:
    (found,) = (one.rest for one in stage if one.name == name)
    return found


def copied() -> list[tuple[str, str]]:
    """(source, target) of everything that the first stage takes from the checkout."""
    pairs = []
    for one in stages()[0]:
        if one.name == "COPY":
            *sources, target = one.rest.split()
            pairs += [(source, target) for source in sources]
    return pairs


def test_the_final_stage_runs_nothing_and_takes_only_the_programs_environment() -> None:
    build, final = stages()
    assert "gcc" in " ".join(one.rest for one in build if one.name == "RUN")
    assert not [one for one in final if one.name in ("RUN", "ADD", "USER")]
    assert only(final, "COPY") == "--from=build /opt/hami-cache /opt/hami-cache"
    assert only(final, "FROM") == only(build, "FROM").removesuffix(" AS build") == "${PYTHON_IMAGE}"


def test_it_starts_the_monitor_and_knows_hamis_name_for_it() -> None:
    _, final = stages()
    assert only(final, "ENTRYPOINT") == '["hami-cache"]'
    assert only(final, "CMD") == '["monitor"]'
    assert "PATH=/opt/hami-cache/bin:${PATH}" in only(final, "ENV")


def test_its_build_arguments_are_what_the_program_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    _, final = stages()
    arguments = [one.rest.partition("=")[0] for one in final if one.name == "ARG"]
    for name in arguments:
        assert f"{name}=${{{name}}}" in only(final, "ENV")
        monkeypatch.setenv(name, f"value of {name}")
    build = build_info()
    assert {build.revision, build.date} == {f"value of {name}" for name in arguments}


def test_the_ignore_file_lets_through_what_is_copied() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert lines[0] == "*"
    let_through = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert let_through == {source for source, _ in copied()}


@pytest.mark.timeout(300)
@pytest.mark.skipif(not has_setuptools(), reason="setuptools is missing or too old to build")
def test_what_it_copies_makes_the_wheel(tmp_path: Path) -> None:
    leave_out = shutil.ignore_patterns("__pycache__", "*.so", "*.o", "_reader.c")
    source = tmp_path / "src"
    source.mkdir()
    for name, target in copied():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / target, ignore=leave_out)
        else:
            shutil.copy(ROOT / name, source / target)
    command = [sys.executable, "-c", BUILD, "build_wheel", str(tmp_path)]
    built = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=240)
    assert built.returncode == 0, built.stderr[-4000:]
    with zipfile.ZipFile(tmp_path / built.stdout.splitlines()[-1]) as wheel:
        names = wheel.namelist()
        (scripts,) = (name for name in names if name.endswith("entry_points.txt"))
        programs = re.findall(r"^(\S+) =", wheel.read(scripts).decode(), re.MULTILINE)
    assert {"hami-cache", "vGPUmonitor"} <= set(programs)
    assert {f"hami_cache/_layouts/{one.name}" for one in (ROOT / "layouts").glob("*.toml")} <= set(
        names
    )
    assert [name for name in names if re.fullmatch(r"hami_cache/_reader\..*\.so", name)]
