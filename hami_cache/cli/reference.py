"""Every command as plain values, out of click: what the manual page and docs/cli.md are made of."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import click

from hami_cache.cli.main import COMMANDS, PROGRAM, hami_cache

EXIT_CODES: Mapping[int, str] = {
    0: "fine",
    1: "findings: doctor, diff, layout check and others found what they look for",
    2: "cannot do it; one line on standard error says what, where and what to do",
}

OTHER_VARIABLES: Mapping[str, str] = {
    "HAMI_CACHE_BUILD_DATE": "when it was built, for --version and the metrics; an image sets it",
    "HAMI_CACHE_REVISION": "what it was built from, likewise",
    "KUBECONFIG": "how to reach the API server; else the pod's service account",
    "NODE_NAME": "this node, as the cluster calls it; else the host's name, and nothing is removed",
    "NO_COLOR": "no colours, where it is set",
}
"""Variables that belong to no single option."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that does something; groups are left out.

    Attributes:
        name: with its groups, such as ``layout check``.
        usage: what follows the name, such as ``[OPTIONS] PATH...``.
        summary: one line.
        text: the paragraphs of its help.
        options: how it is written, and what it does.
        variables: environment variables that stand for an option, and which.
    """

    name: str
    usage: str
    summary: str
    text: tuple[str, ...]
    options: Mapping[str, str]
    variables: Mapping[str, str]


def commands() -> Iterator[Command]:
    """Every command, by name."""
    with _top() as top:
        for name in sorted(COMMANDS):
            command = hami_cache.get_command(top, name)
            assert command is not None, name
            yield from _walk(command, name, top)


def program() -> Command:
    """The program itself, with the options that stand before a command."""
    with _top() as top:
        return _command(hami_cache, "", top)


def variables() -> dict[str, str]:
    """Every environment variable, and what it is for."""
    found: dict[str, list[str]] = {}
    for command in commands():
        for name, option in command.variables.items():
            options = found.setdefault(name, [])
            if option not in options:
                options.append(option)
    by_option = {name: f"stands for {', '.join(options)}" for name, options in found.items()}
    return dict(sorted({**OTHER_VARIABLES, **by_option}.items()))


def _top() -> click.Context:
    return click.Context(hami_cache, info_name=PROGRAM, **hami_cache.context_settings)


def _walk(command: click.Command, name: str, parent: click.Context) -> Iterator[Command]:
    with click.Context(command, info_name=name.rpartition(" ")[2], parent=parent) as here:
        if isinstance(command, click.Group):
            for inner in command.list_commands(here):
                found = command.get_command(here, inner)
                assert found is not None, inner
                yield from _walk(found, f"{name} {inner}", here)
        else:
            yield _command(command, name, here)


def _command(command: click.Command, name: str, context: click.Context) -> Command:
    records = {}
    stand_in = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            records[record[0]] = " ".join(record[1].split())
        if isinstance(parameter.envvar, str):
            stand_in[parameter.envvar] = parameter.opts[0]
    text = inspect.cleandoc(command.help or "").split("\n\n")
    paragraphs = tuple(" ".join(paragraph.split()) for paragraph in text)
    return Command(
        name,
        " ".join(command.collect_usage_pieces(context)),
        paragraphs[0].rstrip("."),
        paragraphs,
        records,
        stand_in,
    )
