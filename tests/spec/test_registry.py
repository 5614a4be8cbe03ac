"""All layouts are there from the first moment, and nothing heavy is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import hami_cache
from tests.goldens import LAYOUTS, golden

HEAVY = (
    "numpy", "rich", "construct", "cffi", "_cffi_backend", "hami_cache._reader",
    "prometheus_client", "pynvml", "lightkube", "grpc", "textual", "msgspec", "yaml",
)  # fmt: skip


def fresh(code: str, *arguments: str) -> str:
    """What a fresh interpreter prints."""
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_fresh_interpreter_knows_all_layouts() -> None:
    code = "import hami_cache, json; print(json.dumps(list(hami_cache.layouts())))"
    assert json.loads(fresh(code)) == list(LAYOUTS)


def test_a_fresh_interpreter_weighs_all_layouts(tmp_path: Path) -> None:
    """Whatever was imported or not: each is a candidate for any file."""
    code = (
        "import sys, json; from hami_cache import identify;"
        "print(json.dumps([c.layout for c in identify(sys.argv[1]).candidates]))"
    )
    file = golden("v1.2--busy").write(tmp_path)
    assert set(json.loads(fresh(code, str(file)))) == set(LAYOUTS)


@pytest.mark.parametrize(
    "code",
    [
        "import hami_cache",
        "import hami_cache; hami_cache.layouts()",
        "from hami_cache.cli.main import main; main(['--help'])",
        "from hami_cache.cli.main import main; main(['identify', sys.argv[1]])",
        "from hami_cache.cli.main import main; main(['identify', '--json', sys.argv[1]])",
        "from hami_cache.cli.main import main; main(['layout', 'list', '--json'])",
    ],
)
def test_what_must_start_fast_imports_nothing_heavy(code: str, tmp_path: Path) -> None:
    file = golden("v1.2--busy").write(tmp_path)
    report = "print(*sorted(set(sys.argv[2:]) & set(sys.modules)), sep=',', file=sys.stderr)"
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; {report}", str(file), *HEAVY],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0
    assert result.stderr == "\n"


def test_the_face_names_only_what_is_there() -> None:
    for name in hami_cache.__all__:
        assert getattr(hami_cache, name) is not None
    assert set(hami_cache.__all__) <= set(dir(hami_cache))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hami_cache.nothing


def test_layouts_are_ordered_by_age() -> None:
    orders = [layout.order for layout in hami_cache.layouts().values()]
    assert orders == sorted(orders)


def test_a_layout_is_loaded_once() -> None:
    assert hami_cache.layouts() is hami_cache.layouts()
