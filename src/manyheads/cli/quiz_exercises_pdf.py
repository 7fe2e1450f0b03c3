"""`manyheads quiz exercises --pdf`: a sheet of exercises on paper, and its key."""

from collections.abc import Sequence
from pathlib import Path

import click

from manyheads.learn.exercises.form import Exercise


def print_exercises(
    sheet: Sequence[Exercise], out: Path, again: str, *, is_key: bool, paper: str, force: bool
) -> None:
    """Write exercises as a PDF, and say where.

    Args:
        sheet: the exercises.
        out: the file.
        again: the command that draws the same ones, for the foot of every page.
        is_key: whether the answers, their working and the known mistakes are filled in.
        paper: a size.
        force: whether a file that is there may be replaced.

    Raises:
        LearnError: the file cannot be written, or typst is not installed.
    """
    from manyheads.report.paper import check_target, pdf_from_sheets, write_pdf
    from manyheads.report.paper_exercises import sheets_from_exercises

    check_target(out, force)
    sheets = sheets_from_exercises(sheet, again)
    write_pdf(out, pdf_from_sheets(sheets, is_key=is_key, size=paper), force)
    click.echo(f"{'The key' if is_key else 'The sheet'} is in {out} ({again})")
