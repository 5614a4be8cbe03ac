"""The manual page, generated: ``python -m hami_cache.cli.manpage [PATH]`` writes hami-cache.1."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hami_cache.cli import reference
from hami_cache.cli.main import PROGRAM
from hami_cache.monitor.buildinfo import build_info

NAME = f"{PROGRAM}.1"


def page() -> str:
    """The page as roff, for man(7)."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    build = build_info()
    known = list(reference.commands())
    program = reference.program()
    source = f"{PROGRAM} {build.version}"
    yield f'.TH HAMI-CACHE 1 "{_line(build.date)}" "{_line(source)}" "User Commands"'
    yield ".SH NAME"
    yield _line(f"{PROGRAM} - {program.summary[0].lower()}{program.summary[1:]}")
    yield ".SH SYNOPSIS"
    yield rf".B {_line(PROGRAM)}"
    yield _line(program.usage)
    yield ".SH DESCRIPTION"
    yield from _paragraphs(program.text)
    yield ".SH OPTIONS"
    yield from _list(program.options)
    yield ".SH COMMANDS"
    for command in known:
        yield rf".SS {_line(command.name)} {_line(command.usage)}"
        yield from _paragraphs(command.text)
        yield from _list(command.options)
    yield ".SH ENVIRONMENT"
    yield from _list(reference.variables())
    yield ".SH EXIT STATUS"
    yield from _list({str(code): text for code, text in reference.EXIT_CODES.items()})


def _paragraphs(text: Sequence[str]) -> Iterator[str]:
    for number, paragraph in enumerate(text):
        if number:
            yield ".PP"
        yield _line(paragraph)


def _list(items: Mapping[str, str]) -> Iterator[str]:
    for name, text in items.items():
        yield ".TP"
        yield rf".B {_line(name)}"
        yield _line(text)


def _line(text: str) -> str:
    """Text as it is: no request at its begin, and the hyphens those that people copy."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page; always 0."""
    parser = argparse.ArgumentParser(prog="hami_cache.cli.manpage", description=__doc__)
    parser.add_argument("path", nargs="?", type=Path, default=Path(NAME), help=f"default: {NAME}")
    parser.parse_args(arguments).path.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
