"""`manyheads worksheet print`: a worksheet as a PDF to fill in, or its key."""

from pathlib import Path

import click

from manyheads.cli.learn_options import FONT, FORCE, PAPER
from manyheads.cli.types import INTEGER, FilePath
from manyheads.cli.worksheet_source import SET, SOURCE, edited_worksheet, say_which

OUT = click.argument("out", metavar="OUT.pdf", type=FilePath())
"""The file to write."""


@click.command("print")
@SOURCE
@OUT
@click.option("--key", "is_key", is_flag=True, help="Print the key: every box with its answer.")
@click.option("--sequence", metavar="S", help="Name of the sequence (default: the first).")
@click.option(
    "--receiver", type=INTEGER, metavar="N", help="Receiver, counted from 1 (default: the last)."
)
@SET
@PAPER
@FONT
@FORCE
def print_(  # noqa: PLR0913 - one argument an option
    source: str,
    out: Path,
    is_key: bool,
    sequence: str | None,
    receiver: int | None,
    changes: tuple[str, ...],
    paper: str,
    font: Path | None,
    force: bool,
) -> None:
    r"""Print a worksheet to a PDF, with empty boxes.

    The sheet has the given numbers, and a box for each number of each step. With --key, the boxes
    show the answers. Both files have the same pages.

    \b
    Examples:
      manyheads worksheet print two-routes two-routes.pdf
      manyheads worksheet print two-routes key.pdf --key --set "heads.0.W_Q[0][0]=1/2"
    """
    from manyheads.report.paper import check_target, pdf_from_sheets, write_pdf
    from manyheads.report.paper_worksheet import sheets_from_worksheet

    check_target(out, force)
    sheet = edited_worksheet(source, changes)
    say_which(sheet, sequence)
    sheets = sheets_from_worksheet(sheet, sequence, receiver, changes)
    write_pdf(out, pdf_from_sheets(sheets, is_key=is_key, size=paper, font=font), force)
    click.echo(f"{'The key' if is_key else 'The worksheet'} is in {out}")
