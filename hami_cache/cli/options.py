"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
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


def offline_option(function: Function) -> Function:
    """``--offline``: a file at rest, such as a copy."""
    return click.option(
        "--offline", is_flag=True, help="Read the bytes once instead of mapping a live file."
    )(function)


def host_proc_option(function: Function) -> Function:
    """``--host-proc``: where the processes of the files are seen."""
    return click.option(
        "--host-proc",
        type=click.Path(path_type=Path),
        help="The /proc of the host the files come from, to tell dead processes.",
    )(function)


def moment(_ctx: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """Seconds since 1970, from a number or an ISO 8601 time (UTC unless it says otherwise)."""
    if value is None:
        return None
    with suppress(ValueError):
        if isfinite(seconds := float(value)):
            return seconds
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither seconds since 1970 nor a date") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def now_option(function: Function) -> Function:
    """``--now``: when the files were as they are."""
    return click.option(
        "--now",
        callback=moment,
        metavar="TIME",
        help="When the files were as they are: seconds since 1970 or ISO 8601; default: now.",
    )(function)
