"""The `manyheads` command: which commands there are, error text and exit statuses.

A command's module is loaded when the command is used, so that `manyheads --help` stays quick.
Exit statuses: 0 all well, 1 a check failed, 2 wrong use or bad input, 130 stopped by Ctrl-C.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import NamedTuple, TextIO

import click

from manyheads.core.errors import ManyHeadsError
from manyheads.core.text import printable


class LazyCommand(NamedTuple):
    """A command that is loaded on first use."""

    name: str
    module: str
    function: str
    help: str


COMMANDS = (
    LazyCommand("lab", "manyheads.cli.lab", "lab", "Run the hands-on lab in five parts."),
    LazyCommand(
        "worksheet", "manyheads.cli.worksheet", "worksheet", "Solve and explain sums done by hand."
    ),
    LazyCommand(
        "check", "manyheads.cli.check", "check", "Judge an attention module, and name its fault."
    ),
    LazyCommand("study", "manyheads.cli.study", "study", "Train and compare models by a plan."),
    LazyCommand(
        "generate", "manyheads.cli.generate", "generate", "Continue a story with a small model."
    ),
    LazyCommand(
        "export", "manyheads.cli.export", "export", "Write a model as a file for other programs."
    ),
    LazyCommand("quiz", "manyheads.cli.quiz", "quiz", "Find out what you have understood."),
    LazyCommand("cards", "manyheads.cli.cards", "cards", "Recall what you learned, card by card."),
    LazyCommand(
        "notebooks", "manyheads.cli.notebooks", "notebooks", "Copy the notebooks to a folder."
    ),
    LazyCommand("serve", "manyheads.cli.page", "serve", "Serve the page on this computer."),
    LazyCommand("site", "manyheads.cli.page", "site", "Write the page as a folder of files."),
)


class LazyGroup(click.Group):
    """A group that knows its commands by name and loads one when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name all commands, in the order of the help page."""
        return [command.name for command in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        for command in COMMANDS:
            if command.name == cmd_name:
                loaded = getattr(import_module(command.module), command.function)
                assert isinstance(loaded, click.Command)
                _keep_line_breaks(loaded)
                return loaded
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(command.name, command.help) for command in COMMANDS])


def _keep_line_breaks(command: click.Command) -> None:
    """Make the no-wrap mark of a raw docstring what click looks for, in all commands below too."""
    command.help = (command.help or "").replace("\\b", "\b")
    for below in getattr(command, "commands", {}).values():
        _keep_line_breaks(below)


@click.group(cls=LazyGroup, invoke_without_command=True)
@click.version_option(version("manyheads"), prog_name="manyheads")
@click.pass_context
def cli(ctx: click.Context) -> None:
    r"""Understand, verify and measure multi-head attention, with every number visible.

    \b
    Example:
      manyheads worksheet explain river-and-cheque "river.output[9][0]"
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


_keep_line_breaks(cli)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status; nothing a user does gives a traceback."""
    _open_closed_streams()
    _make_printable()
    try:
        status = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has gone, as `head` does; that is no fault of the command.
        sys.stdout = _nowhere()
        return 0
    except (KeyboardInterrupt, click.Abort):
        _tell("\n")
        return 130
    except OSError as error:
        sys.stdout = _nowhere()  # what could not be written must not be tried again at exit
        return _refused(
            f"standard output: {error.strerror or error}: make room, or write elsewhere"
        )
    return status


def _run(arguments: list[str]) -> int:
    try:
        with cli.make_context("manyheads", arguments) as ctx:
            cli.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "manyheads"
        return _refused(f"{error.format_message()} (see: {path} --help)")
    except click.ClickException as error:
        return _refused(error.format_message())
    except ManyHeadsError as error:
        return _refused(str(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        return _refused(f"{named}{error.strerror or error}: check the path and its permissions")
    return 0


def _refused(message: str) -> int:
    """Say in one line what was wrong, on standard error."""
    line = " ".join(message.split())
    _tell(f"manyheads: {printable(line)}\n")
    return 2


def _tell(text: str) -> None:
    """Write to standard error; where that is impossible, the exit status has to do."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        sys.stderr = _nowhere()


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _open_closed_streams() -> None:
    """Let a command that was started with closed streams (`>&-`) write into nothing."""
    # Python holds None for a stream that was closed, whatever its annotation says.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, _nowhere())


def _make_printable() -> None:
    """Let a terminal that lacks a letter show an escape instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
