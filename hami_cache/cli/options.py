"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from hami_cache.spec.registry import FOLDER_VARIABLE

Function = TypeVar("Function", bound=Callable[..., Any])


def layouts_option(function: Function) -> Function:
    """``--layouts DIR``: a folder of layout files searched first."""
    return click.option(
        "--layouts",
        type=click.Path(path_type=Path),
        envvar=FOLDER_VARIABLE,
        show_envvar=True,
        help="A folder of layout files, searched before the built-in ones.",
    )(function)


def follow_option(function: Function) -> Function:
    """``--follow``: accept symbolic links."""
    return click.option("--follow", is_flag=True, help="Follow a symbolic link.")(function)


def json_option(function: Function) -> Function:
    """``--json``: for machines."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")(
        function
    )


def hook_path_option(function: Function) -> Function:
    """``--hook-path``: where a node's caches are."""
    return click.option(
        "--hook-path",
        type=click.Path(path_type=Path),
        envvar="HOOK_PATH",
        show_envvar=True,
        help="HAMi's directory: caches lie at containers/<podUID>_<container>/*.cache below it.",
    )(function)
