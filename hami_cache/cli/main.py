"""The entry point: commands loaded when they are called, errors told in one line."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from hami_cache.errors import HamiCacheError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM = "hami-cache"

COMMANDS = {
    "allocwatch": ("hami_cache.cli.allocwatch", "Turn the node's GPU allocation into readings."),
    "completion": ("hami_cache.cli.completion", "Print what makes a shell complete commands."),
    "convert": ("hami_cache.cli.convert", "Rewrite a cache file into another layout."),
    "diff": ("hami_cache.cli.diff", "Show what differs between two cache files, field by field."),
    "doctor": ("hami_cache.cli.doctor", "Say what is wrong with cache files, and what to do."),
    "hexdump": ("hami_cache.cli.hexdump", "Show bytes with the field that each belongs to."),
    "demo": ("hami_cache.cli.demo", "A small node of simulated containers, read and measured."),
    "feedback": ("hami_cache.cli.feedback", "Run the feedback loop by itself and say why."),
    "gc": ("hami_cache.cli.gc", "Say which directories the garbage collection would remove."),
    "identify": ("hami_cache.cli.identify", "Say which layout cache files have, and why."),
    "inspect": ("hami_cache.cli.inspect", "Show everything a cache file says."),
    "layout": ("hami_cache.cli.layout", "Know, check, compare and write layouts."),
    "monitor": ("hami_cache.cli.monitor", "Serve a node's metrics, in vGPUmonitor's place."),
    "plot": ("hami_cache.cli.plot", "Draw a recording: memory and utilization over time."),
    "record": ("hami_cache.cli.record", "Record what a node's caches say, again and again."),
    "replay": ("hami_cache.cli.replay", "Print a recording, sample by sample."),
    "report": ("hami_cache.cli.report", "Write one HTML page about cache files."),
    "scan": ("hami_cache.cli.scan", "Say what every one of many cache files is, in one line."),
    "slices": ("hami_cache.cli.slices", "Measure every pod container's share of every GPU."),
    "support-bundle": ("hami_cache.cli.support_bundle", "Pack what a maintainer needs to know."),
    "top": ("hami_cache.cli.top", "Watch the node's containers in the terminal."),
}
"""Name: (module that defines a click command of that name, one line of help)."""


class LazyCommands(click.Group):
    """A group that imports a command's module only when the command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(COMMANDS[cmd_name][0])
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands and options that begin like this, without importing anything."""
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=COMMANDS[name][1])
            for name in sorted(COMMANDS)
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Help without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])


def _show_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    """Print it; the first line is for programs."""
    if asked:
        from hami_cache.cli.version import version_text

        click.echo(version_text())
        ctx.exit()


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Print the version and what this is built from, and end.",
)
def hami_cache() -> None:
    """Read HAMi's shared GPU accounting caches correctly, whatever their layout.

    Exit codes: 0 fine, 1 findings, 2 cannot do it (with one line on stderr that says why).
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    _escape_what_has_no_code()
    try:
        result = hami_cache.main(args=argv, prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return int(stop.exit_code)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else PROGRAM
        return _fail(f"{error.format_message()} (see: {command} --help)")
    except click.ClickException as error:
        return _fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader of our output has seen enough; keep the interpreter's last flush quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except HamiCacheError as error:
        return _fail(str(error))
    return result if isinstance(result, int) else 0


def _escape_what_has_no_code() -> None:
    """On a terminal that has no code for a letter show an escape, rather than end in its midst."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _fail(message: str) -> int:
    print(f"{PROGRAM}: {' '.join(message.split())}", file=sys.stderr)
    return 2
