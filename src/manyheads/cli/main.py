"""The `manyheads` command: its subcommands, error messages and exit statuses.

A command's module is loaded when the command is used, so that `manyheads --help` stays quick.
Exit statuses: 0 all well, 1 a check failed, 2 wrong use or bad input, 130 stopped by Ctrl-C.
"""

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import NamedTuple

import click

from manyheads.cli.interrupts import patient_interrupts
from manyheads.cli.streams import OutputError, patient_streams
from manyheads.core.errors import ManyHeadsError
from manyheads.core.files import reason_of
from manyheads.core.text import brief, printable

_LONGEST_VALUE = 120
"""Characters of an argument that a message may repeat."""
_LONG_RUN = re.compile(rf"\S{{{2 * _LONGEST_VALUE},}}")


class LazyCommand(NamedTuple):
    """A command that is loaded on first use."""

    name: str
    module: str
    function: str
    help: str


COMMANDS = (
    LazyCommand("lab", "manyheads.cli.lab", "lab", "Run the lab: five parts with checked numbers."),
    LazyCommand(
        "worksheet",
        "manyheads.cli.worksheet",
        "worksheet",
        "Solve and explain attention with exact numbers.",
    ),
    LazyCommand(
        "check", "manyheads.cli.check", "check", "Check an attention module and name its fault."
    ),
    LazyCommand(
        "compare",
        "manyheads.cli.compare",
        "compare",
        "Compare two attention modules and show where they depart.",
    ),
    LazyCommand("look", "manyheads.cli.look", "look", "Look at the heads of a model."),
    LazyCommand("study", "manyheads.cli.study", "study", "Train and compare models by a plan."),
    LazyCommand(
        "generate", "manyheads.cli.generate", "generate", "Continue a story with a trained model."
    ),
    LazyCommand("export", "manyheads.cli.export", "export", "Write a model as an ONNX file."),
    LazyCommand("quiz", "manyheads.cli.quiz", "quiz", "Test what you have understood."),
    LazyCommand(
        "practice", "manyheads.cli.practice", "practice", "Write attention yourself; it is judged."
    ),
    LazyCommand("cards", "manyheads.cli.cards", "cards", "Review recall cards when they are due."),
    LazyCommand(
        "notebooks", "manyheads.cli.notebooks", "notebooks", "Write the notebooks to a folder."
    ),
    LazyCommand("serve", "manyheads.cli.page", "serve", "Serve the page on this computer."),
    LazyCommand("site", "manyheads.cli.page", "site", "Write the page as static files."),
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
    """Convert the no-wrap mark of raw docstrings to click's, in all subcommands too."""
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
    """Run a command line and return its exit status; wrong input never gives a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    with patient_streams():
        try:
            with patient_interrupts(main.__code__):
                status = _run(words)
            sys.stdout.flush()
        except (KeyboardInterrupt, click.Abort):
            sys.stderr.write("\n")
            return 130
        except OutputError as error:
            return _refuse(str(error), words)
    return status


def _run(words: list[str]) -> int:
    for number, word in enumerate(words, start=1):
        if "\0" in word:
            return _refuse(f"argument {number} ({word}) contains a NUL character: remove it", words)
    try:
        with cli.make_context("manyheads", list(words)) as ctx:
            cli.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "manyheads"
        return _refuse(f"{error.format_message()} (see: {path} --help)", words)
    except click.ClickException as error:
        return _refuse(error.format_message(), words)
    except ManyHeadsError as error:
        return _refuse(str(error), words)
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        return _refuse(f"{named}{reason_of(error)}: check the path and its permissions", words)
    return 0


def _refuse(message: str, words: Sequence[str]) -> int:
    """Report in one line on standard error what is wrong, with long values cut."""
    for value in {part for word in words for part in (word, *word.split("="))}:
        if len(value) > _LONGEST_VALUE:
            message = message.replace(value, brief(value)).replace(repr(value)[1:-1], brief(value))
    message = _LONG_RUN.sub(lambda run: brief(run[0]), message)
    sys.stderr.write(f"manyheads: {printable(' '.join(message.split()))}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
