"""The options that say where a struct's declaration comes from, and the reading of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import click

from hami_cache.toolkit.shape import REGION, Shape

Function = TypeVar("Function", bound=Callable[..., Any])

_PATH = click.Path(path_type=Path)


class Source(TypedDict):
    """The values of `header_options`."""

    header: Path | None
    elf: Path | None
    struct: str
    cc: str | None
    include: tuple[Path, ...]
    define: tuple[str, ...]


def declaration_options(function: Function) -> Function:
    """``--header``, ``--elf`` and what belongs to them."""
    options = (
        click.option("--header", type=_PATH, help="A C header that declares the struct."),
        click.option("--elf", type=_PATH, help="A library with debug information (built with -g)."),
        click.option("--struct", default=REGION, show_default=True, help="The struct's name."),
        click.option(
            "--cc",
            help="The C compiler to ask, a cross compiler too; 'none' for our own arithmetic.",
        ),
        click.option(
            "-I", "include", type=_PATH, multiple=True, help="A folder of included headers."
        ),
        click.option("-D", "define", multiple=True, metavar="NAME[=VALUE]", help="Define a macro."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def read_shape(source: Source, go: Path | None = None) -> Shape:
    """The struct that the one source given declares."""
    given = [path for path in (source["header"], source["elf"], go) if path is not None]
    if len(given) != 1:
        raise click.UsageError("give exactly one source: a header, an ELF file or a mirror")
    if source["elf"] is not None:
        from hami_cache.toolkit.elf import read_elf

        return read_elf(source["elf"], struct=source["struct"])
    if source["header"] is not None:
        from hami_cache.toolkit.header import read_header

        pairs = (define.partition("=") for define in source["define"])
        return read_header(
            source["header"],
            struct=source["struct"],
            cc=source["cc"],
            folders=source["include"],
            defines={name: value if equals else "1" for name, equals, value in pairs},
        )
    from hami_cache.toolkit.gomirror import read_go

    return read_go(given[0], struct=source["struct"])
