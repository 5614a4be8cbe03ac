"""``hami-cache layout new``, ``import``, ``export``: layouts as files and for other languages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Unpack

import click

from hami_cache.cli.kinds import LAYOUT
from hami_cache.cli.layout_sources import Source, declaration_options, read_shape
from hami_cache.cli.options import layouts_option
from hami_cache.errors import ConfigError, LayoutError
from hami_cache.spec import registry
from hami_cache.spec.layout import Layout
from hami_cache.toolkit.render import TARGETS

_output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    help="A file, or a folder to put NAME.toml in; - for standard output (default: ./NAME.toml).",
)


@click.command("new")
@click.argument("name")
@click.option("--from", "base", required=True, type=LAYOUT, help="The layout to start from.")
@_output_option
@layouts_option
def new_layout(name: str, base: str, output: Path | None, layouts: Path | None) -> None:
    """Write the file of a new layout that starts as a copy of another.

    A name such as v1.3 also sets the version that its header carries.
    """
    from hami_cache.toolkit import draft

    made = draft.copy(registry.layout(base, layouts), name, registry.layouts(layouts))
    _write_layout(made, output)


@click.command("import")
@declaration_options
@click.option("--name", help="The layout's name (default: from the header's version, as v1.3).")
@click.option("--from", "base", help="The layout whose meaning it takes over (default: nearest).")
@_output_option
@layouts_option
def import_layout(
    name: str | None,
    base: str | None,
    output: Path | None,
    layouts: Path | None,
    **source: Unpack[Source],
) -> None:
    """Write the file of the layout that a header or a library declares."""
    from hami_cache.toolkit import draft
    from hami_cache.toolkit.check import check

    known = registry.layouts(layouts)
    shape = read_shape(source)
    report = check(shape, known, base)
    same = [n for n in report.same_as if shape.version in (None, known[n].identity.version)]
    if same:
        raise LayoutError(f"nothing to import: this is {same[0]}", path=shape.name)
    if name is None:
        if shape.version is None:
            raise ConfigError("the source has no version to name it by", hint="give --name")
        name = f"v{shape.version}"
    _write_layout(draft.from_shape(shape, report.layout, name, known), output)


@click.command("export")
@click.argument("name", type=LAYOUT)
@click.option("--to", "target", required=True, type=click.Choice(list(TARGETS)), help="For whom.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: standard output.")
@layouts_option
def export_layout(name: str, target: str, output: Path | None, layouts: Path | None) -> None:
    """Write a layout for a reader in another language."""
    from hami_cache.cli.layout_changes import layout_called
    from hami_cache.toolkit.render import render

    text = render(layout_called(name, layouts), target)
    if output is None:
        sys.stdout.write(text)
    else:
        write_file(output, text)


def write_file(path: Path, text: str) -> None:
    """Write a file, replacing one that is there.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", path=path) from None


def _write_layout(layout: Layout, output: Path | None) -> None:
    """Write a layout's file under its name; never over another."""
    from hami_cache.toolkit.layoutfile import to_toml

    text = to_toml(layout)
    if output == Path("-"):
        sys.stdout.write(text)
        return
    file_name = f"{layout.name}.toml"
    path = output or Path(file_name)
    path = path / file_name if path.is_dir() else path
    if path.name != file_name:
        raise ConfigError(f"a layout file is called like its layout: {file_name}", path=path)
    if path.exists():
        raise ConfigError("is there already", path=path, hint="remove it, or give --output")
    write_file(path, text)
    print(f"{path}: fill in summary and upstream, then put it among the layouts")
