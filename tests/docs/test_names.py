"""Metrics, commands and options that pages mention exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from hami_cache.cli.main import hami_cache as cli
from tests.docs.examples import blocks
from tests.docs.test_examples import PAGES, ROOT

METRICS = set(re.findall(r"`([A-Za-z_]+)`", (ROOT / "docs" / "metrics.md").read_text()))
"""Held against a rich scrape by tests/monitor/test_metrics_page.py."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_metrics(page: Path) -> None:
    mentioned = re.findall(r"(?<![\w/.])hami_[a-z0-9_]*[a-z0-9](?![\w/.]|…)", page.read_text())
    assert set(mentioned) - METRICS - {"hami_cache"} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options(page: Path) -> None:
    for line in mentions(page):
        command, rest = called(line.split())
        known = {
            name for option in command.params for name in (*option.opts, *option.secondary_opts)
        }
        wanted = {re.sub(r"=.*|[],|;:)]+$", "", word.lstrip("[(")) for word in rest}
        unknown = {word for word in wanted if word.startswith("--")} - known - {"--help"}
        assert unknown == set(), line


def mentions(page: Path) -> Iterator[str]:
    """What follows ``hami-cache`` in inline code and at the start of fenced lines, up to a pipe."""
    found = re.findall(r"(?<!`)`hami-cache ([^`]+)`", page.read_text())
    for block in blocks(page):
        found += re.findall(r"^(?:\$ )?hami-cache (.+)", block.text, re.MULTILINE)
    for line in found:
        if line != "history 1":  # the first line of a recording
            yield re.split(r" [|>#] ", " ".join(line.split()))[0]


def called(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that some words call, and the words behind its name."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words and words[0][0].isalpha():
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"no such command: {words[0]}"
        command, words = found, words[1:]
    return command, words
