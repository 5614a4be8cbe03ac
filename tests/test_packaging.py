"""The sdist builds, a wheel builds from it, and the wheel works when it is installed elsewhere."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from hami_cache.testing import CacheBuilder
from tests.goldens import LAYOUTS

ROOT = Path(__file__).resolve().parents[1]
SETUPTOOLS = 77
"""The version that pyproject.toml asks for; without network it cannot be fetched."""

BUILD = """
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""

LEFT_OUT = shutil.ignore_patterns(
    ".*", "build", "dist", "*.egg-info", "*.so", "*.o", "_reader.c", "__pycache__", "tests", "docs"
)


def has_setuptools() -> bool:
    try:
        return int(version("setuptools").partition(".")[0]) >= SETUPTOOLS
    except PackageNotFoundError:
        return False


def run(*command: object, cwd: Path) -> str:
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=240
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    return result.stdout


@pytest.mark.timeout(300)
@pytest.mark.skipif(not has_setuptools(), reason="setuptools is missing or too old to build")
def test_the_wheel_of_the_sdist_works_elsewhere(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=LEFT_OUT)
    sdist = run(sys.executable, "-c", BUILD, "build_sdist", tmp_path, cwd=source).splitlines()[-1]
    with tarfile.open(tmp_path / sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(tmp_path / "unpacked", filter="data")
    for name in ("LICENSE", "pyproject.toml", "native/abi.h", "layouts/v1.2.toml"):
        assert name in names
    (unpacked,) = (tmp_path / "unpacked").iterdir()

    wheel = run(sys.executable, "-c", BUILD, "build_wheel", tmp_path, cwd=unpacked).splitlines()[-1]
    with zipfile.ZipFile(tmp_path / wheel) as archive:
        names = set(archive.namelist())
    assert {f"hami_cache/_layouts/{name}.toml" for name in LAYOUTS} <= names
    modules = {p.relative_to(source).as_posix() for p in source.glob("hami_cache/**/*.py")}
    assert modules <= names
    assert "hami_cache/py.typed" in names
    assert any(name.startswith("hami_cache/_reader.") for name in names)
    assert not {name.partition("/")[0] for name in names if "/" in name} & {"tests", "benchmarks"}

    elsewhere = tmp_path / "elsewhere"
    run(sys.executable, "-m", "venv", "--without-pip", elsewhere, cwd=tmp_path)
    python = elsewhere / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    run(*pip, "--no-deps", "--no-index", tmp_path / wheel, cwd=tmp_path)
    place = "import sysconfig; print(sysconfig.get_path('purelib'))"
    # The dependencies are those of this environment, behind what was just installed.
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    packages = Path(run(python, "-c", place, cwd=tmp_path).strip())
    (packages / "borrowed.pth").write_text("\n".join(sorted(borrowed)) + "\n")

    where = run(python, "-c", "import hami_cache; print(hami_cache.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(elsewhere)
    cache = CacheBuilder("v1-sem").process(71, memory=[1 << 30]).write(tmp_path / "x.cache")
    command = elsewhere / "bin" / "hami-cache"
    listed = json.loads(run(command, "layout", "list", "--json", cwd=tmp_path))
    assert [one["name"] for one in listed] == list(LAYOUTS)
    assert all(Path(one["path"]).is_relative_to(elsewhere) for one in listed)
    assert json.loads(run(command, "identify", "--json", cache, cwd=tmp_path))["layout"] == "v1-sem"
    inspected = json.loads(run(command, "inspect", "--json", cache, cwd=tmp_path))
    assert inspected["devices"][0]["used"]["total"] == 1 << 30
    said = run(command, "--version", cwd=tmp_path).splitlines()
    assert said[0] == f"hami-cache {version('hami-cache')}"
    assert said[-1].startswith(f"native reader: {elsewhere}")
