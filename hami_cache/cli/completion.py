"""``hami-cache completion``: what makes a shell complete commands, options, layouts and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_HAMI_CACHE_COMPLETE"
"""By this variable the script asks us, as click defines it for the program's name."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that makes a shell complete commands, options, layouts and files.

    bash: hami-cache completion bash > /etc/bash_completion.d/hami-cache

    zsh: hami-cache completion zsh > "${fpath[1]}/_hami-cache"

    fish: hami-cache completion fish > ~/.config/fish/completions/hami-cache.fish
    """
    from hami_cache.cli.main import PROGRAM, hami_cache

    made = get_completion_class(shell)
    assert made is not None, "click knows all three"
    asked = made(hami_cache, {}, PROGRAM, VARIABLE)
    # Not `source()`: for bash it runs one to see how old it is, and this one may be for another.
    click.echo(asked.source_template % asked.source_vars())
