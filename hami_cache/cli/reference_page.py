"""docs/cli.md, generated: ``python -m hami_cache.cli.reference_page [--check]``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence

from hami_cache.cli import reference
from hami_cache.cli.main import PROGRAM
from hami_cache.toolkit import generated

_MARKS = re.compile(r"([\\`*_\[\]<>|])")


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    known = list(reference.commands())
    yield "# The command line"
    yield ""
    yield "<!-- Generated from the code: python -m hami_cache.cli.reference_page -->"
    yield ""
    yield "| command | |"
    yield "|---|---|"
    for command in known:
        yield f"| [{PROGRAM} {command.name}](#{_anchor(command)}) | {_escaped(command.summary)} |"
    yield ""
    yield from _table("exit code", "means", {str(k): v for k, v in reference.EXIT_CODES.items()})
    yield from _table("variable", "", reference.variables())
    yield from _table("option before the command", "", reference.program().options)
    yield "JSON shapes: [json.md](json.md)."
    for command in known:
        yield from _section(command)


def _section(command: reference.Command) -> Iterator[str]:
    yield ""
    yield f'## <a id="{_anchor(command)}"></a>{PROGRAM} {command.name}'
    yield ""
    yield f"    {PROGRAM} {command.name} {command.usage}"
    for paragraph in command.text:
        yield ""
        yield _escaped(paragraph)
    yield ""
    yield from _table("option", "", command.options)


def _table(left: str, right: str, rows: Mapping[str, str]) -> Iterator[str]:
    yield f"| {left} | {right} |"
    yield "|---|---|"
    for name, text in rows.items():
        code = name.replace("|", "\\|")
        yield f"| `{code}` | {_escaped(text)} |"
    yield ""


def _anchor(command: reference.Command) -> str:
    return f"cli-{command.name.replace(' ', '-')}"


def _escaped(text: str) -> str:
    return _MARKS.sub(r"\\\1", text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with ``--check`` say whether it is fresh; 1 when it is not."""
    return generated.main("hami_cache.cli.reference_page", "cli.md", page, arguments)


if __name__ == "__main__":
    sys.exit(main())
