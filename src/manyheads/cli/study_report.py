"""`manyheads study report`: tables, figures and pages of a finished study."""

import json
from pathlib import Path

import click

from manyheads.cli.types import FilePath


@click.command()
@click.argument("folder", metavar="DIR", type=FilePath(file_okay=False))
@click.option(
    "--out",
    type=FilePath(file_okay=False),
    metavar="DIR2",
    help="Folder for the files (default DIR).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def report(folder: Path, out: Path | None, as_json: bool) -> None:
    r"""Write a report on the study in DIR.

    The report has means, paired differences, figures and limits. The command writes report.html,
    report.md and figures/*.svg, and prints the main tables.

    \b
    Example:
      manyheads study report studies/smoke
    """
    from manyheads.report.study import report_from_folder

    found = report_from_folder(folder)
    files = found.write(out or folder)
    if as_json:
        document = found.to_dict() | {"files": [str(path) for path in files]}
        click.echo(json.dumps(document, allow_nan=False, ensure_ascii=False))
        return
    click.echo(str(found))
    click.echo()
    for path in files[:2]:
        click.echo(f"Wrote {path}")
    if len(files) > 2:
        click.echo(f"Wrote {len(files) - 2} figures in {files[2].parent}")
