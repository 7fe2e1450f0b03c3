"""`manyheads practice grade` and `notebook`: for courses."""

import json
from pathlib import Path

import click

from manyheads.cli.learn_options import FORCE
from manyheads.cli.types import FilePath


@click.command()
@click.argument("folder", type=FilePath(exists=True, file_okay=False))
@click.option("--task", "name", metavar="NAME", help="Task of all files (default: each names its).")
@click.option("--csv", "csv_file", type=FilePath(), metavar="FILE", help="Write the table as CSV.")
@click.option(
    "--html", "pages", type=FilePath(file_okay=False), metavar="DIR", help="Write student pages."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def grade(
    ctx: click.Context,
    folder: Path,
    name: str | None,
    csv_file: Path | None,
    pages: Path | None,
    as_json: bool,
) -> None:
    r"""Judge every Python file below a folder. The exit status is 0 if all are solved, else 1.

    Each file runs in a process of its own with limits. Files in a folder belong to the student
    with the folder's name.

    \b
    Example:
      manyheads practice grade answers --csv grades.csv
    """
    from manyheads.core.files import write_whole
    from manyheads.practice.grading import (
        csv_from_grades,
        grade_folder,
        text_from_grades,
        write_pages,
    )

    grades = grade_folder(folder, name=name, on_done=lambda one: click.echo(one.file, err=True))
    if csv_file is not None:
        write_whole(csv_file, csv_from_grades(grades).encode())
    if pages is not None:
        write_pages(grades, pages)
    if as_json:
        click.echo(json.dumps({"grades": [one.row() for one in grades]}, allow_nan=False))
    else:
        click.echo(text_from_grades(grades))
    ctx.exit(0 if all(one.report is not None and one.report.solved for one in grades) else 1)


@click.command()
@click.argument("name", required=False)
@click.argument("folder", metavar="[DIR]", type=FilePath(file_okay=False), default=".")
@click.option("--all", "is_all", is_flag=True, help="One notebook with the whole ladder.")
@FORCE
def notebook(name: str | None, folder: Path, is_all: bool, force: bool) -> None:
    r"""Write the notebook of a task, or with --all that of the whole ladder.

    \b
    Examples:
      manyheads practice notebook multi-head
      manyheads practice notebook --all
    """
    from manyheads.practice.repairs import any_task
    from manyheads.practice.starting import write_notebook

    if not is_all and name is None:
        raise click.UsageError("give the name of a task, or --all for the whole ladder")
    task = None if is_all or name is None else any_task(name)
    if is_all and name is not None:  # with --all, the only argument is the folder
        folder = Path(name)
    click.echo(f"Wrote {write_notebook(task, folder, force=force)}")
