"""The worksheet of a command: its name or file, and the numbers that `--set` changes."""

from pathlib import Path

import click

from manyheads.cli.types import NAME_OR_PATH, STANDARD_INPUT
from manyheads.core.errors import WorksheetError
from manyheads.core.text import quoted
from manyheads.worksheets.library import Worksheet
from manyheads.worksheets.library import worksheet as opened

SOURCE = click.argument("source", metavar="NAME|FILE", type=NAME_OR_PATH)
"""The worksheet; `-` is standard input."""
SET = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="PATH=VALUE",
    help='Change a given number, such as "heads.0.W_Q[3][1]=1/2". Indices count from 0.',
)
"""Changed numbers."""


def edited_worksheet(source: str, changes: tuple[str, ...]) -> Worksheet:
    """Open a worksheet and change its numbers.

    Args:
        source: as `SOURCE` gives it.
        changes: as `SET` gives them.

    Raises:
        WorksheetError: the worksheet does not exist, or a change does not fit it.
    """
    edits = {}
    for change in changes:
        place, sign, value = change.partition("=")
        if not sign:
            raise WorksheetError(
                f"--set ({quoted(change)}) must be PATH=VALUE: write it like heads.0.W_Q[3][1]=1/2"
            )
        edits[place.strip()] = value.strip()
    sheet = opened(Path(STANDARD_INPUT) if source == "-" else source)
    return sheet.edit(edits) if edits else sheet


def say_which(sheet: Worksheet, sequence: str | None) -> None:
    """Print on standard error which sequence is used if there are several."""
    if sequence is None and len(sheet.sequences) > 1:
        names = ", ".join(sheet.sequence_names)
        click.echo(f"sequence: using {sheet.sequence_names[0]}, the first of {names}", err=True)
