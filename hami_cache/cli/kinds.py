"""Kinds of arguments, for the shells that complete them. They take any text: commands check it."""

from __future__ import annotations

import os

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

from hami_cache.spec.registry import FOLDER_VARIABLE, builtin_folder

SUFFIX = ".toml"


class _Text(StringParamType):
    """Text that a shell can complete."""

    def __init__(self, *, layouts: bool, files: bool) -> None:
        self._layouts = layouts
        self._files = files

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """What the text might become; files are left to the shell."""
        # Files first: bash forgets what came before them, and shows them where there is no name.
        files = [CompletionItem(incomplete, type="file")] if self._files else []
        names = _layout_names() if self._layouts else []
        return [*files, *(CompletionItem(name) for name in names if name.startswith(incomplete))]


FILE = _Text(layouts=False, files=True)
LAYOUT = _Text(layouts=True, files=False)
LAYOUT_OR_FILE = _Text(layouts=True, files=True)


def _layout_names() -> list[str]:
    """The names of all layout files, without reading them: somebody waits for the next letter."""
    folders = [str(builtin_folder())]
    if own := os.environ.get(FOLDER_VARIABLE):
        folders.append(own)
    names: set[str] = set()
    for folder in folders:
        try:
            found = os.listdir(folder)
        except OSError:
            continue
        names |= {name.removesuffix(SUFFIX) for name in found if name.endswith(SUFFIX)}
    return sorted(names)
