"""docs/json-reference.md: fresh, and about every command that prints JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from hami_cache.cli import json_page, reference


def test_the_page_is_fresh() -> None:
    """Else: python -m hami_cache.cli.json_page."""
    assert json_page.main(["--check"]) == 0


def test_a_stale_page_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "json-reference.md"
    page.write_text("old")
    assert json_page.main(["--check", str(page)]) == 1
    assert "stale" in capsys.readouterr().err


def test_every_command_with_json_is_there() -> None:
    shown = [" ".join(command) for command in json_page.COMMANDS]
    for command in reference.commands():
        if any("--json" in option for option in command.options):
            assert any(words.startswith(f"{command.name} ") for words in shown), command.name


@pytest.mark.parametrize(
    ("shapes", "fits"),
    [
        (["number", "number"], "number"),
        (["number", "text"], "number | text"),
        ([{"a": "number"}, {"b": "text"}], {"a": "number", "b": "text"}),
        ([["number"], []], ["number"]),
        (["number", {"absent": "text"}], 'number | {"absent": "text"}'),
    ],
)
def test_one_shape_fits_all(shapes: list[object], fits: object) -> None:
    assert json_page.merged(shapes) == fits


def test_a_shape_has_no_values() -> None:
    document = {"name": "a", "size": 7, "live": True, "gone": None, "slots": [{"pid": 1}, {}]}
    assert json_page.shape(document) == {
        "name": "text",
        "size": "number",
        "live": "true or false",
        "gone": "null",
        "slots": [{"pid": "number"}],
    }
