"""What these tests need beside the project: in CI they fail without it, else they are skipped."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def program(name: str) -> str:
    """A program of the environment or of the machine; see tests/deploy/get_kube_tools.py."""
    places = os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ.get("PATH", "")])
    found = shutil.which(name, path=places)
    return found or _missing(f"{name} is not installed")


def package(name: str) -> ModuleType:
    """A package of the test extra that carries schemas."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return _missing(f"the package {name} is not installed")


def _missing(what: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def run(name: str, *arguments: object) -> str:
    """A program's output; what it wrote to standard error is the failure's message."""
    result = attempt(name, *arguments)
    assert result.returncode == 0, result.stderr + result.stdout
    return result.stdout


def attempt(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A program that may fail."""
    command = [program(name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
