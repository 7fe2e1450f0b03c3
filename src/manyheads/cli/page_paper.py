"""`python -m manyheads.cli.page_paper OUT.json FOLDER`: printed worksheets beside the page."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from manyheads.core.errors import LearnError, ManyHeadsError
from manyheads.core.files import write_whole

_FOLDER = "paper"


@click.command()
@click.argument("out", metavar="OUT.json", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("folder", metavar="FOLDER", type=click.Path(file_okay=False, path_type=Path))
def page_paper(out: Path, folder: Path) -> None:
    r"""Write each shipped worksheet and its key as PDFs into FOLDER/paper, and a list of them.

    Without fpdf2 the list is empty, and the page says so.

    \b
    Example:
      python -m manyheads.cli.page_paper web/src/generated/paper.json web/src/generated/files
    """
    from manyheads.report.paper_fonts import require_paper
    from manyheads.web.export import write_json

    target = folder / _FOLDER
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("*.pdf"):
        old.unlink()
    try:
        require_paper()
        papers = list(_papers(target))
    except LearnError as error:
        click.echo(f"no printed worksheets for the page: {error}", err=True)
        papers = []
    write_json({"format": 1, "papers": papers}, out)


def _papers(target: Path) -> Iterator[dict[str, Any]]:
    from manyheads.report.paper import pdf_from_sheets
    from manyheads.report.paper_page import SIZES
    from manyheads.report.paper_worksheet import sheets_from_worksheet
    from manyheads.worksheets.library import worksheet, worksheet_names

    for name in worksheet_names():
        sheets = sheets_from_worksheet(worksheet(name))
        for is_key in (False, True):
            for size in SIZES:
                kind = "key" if is_key else "blank"
                path = f"{name}-{kind}-{size}.pdf"
                data = pdf_from_sheets(sheets, is_key=is_key, size=size)
                write_whole(target / path, data)
                facts = {"path": f"{_FOLDER}/{path}", "size": len(data)}
                yield {
                    "worksheet": name,
                    "title": sheets.title,
                    "kind": kind,
                    "paper": size,
                } | facts


if __name__ == "__main__":
    try:
        page_paper.main(standalone_mode=False)
    except (ManyHeadsError, click.ClickException, OSError) as error:
        said = error.format_message() if isinstance(error, click.ClickException) else str(error)
        click.echo(f"manyheads: {' '.join(said.split())}", err=True)
        sys.exit(2)
