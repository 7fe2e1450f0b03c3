"""The printed worksheets of the page: each shipped one and its key, in every paper size."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from manyheads.core.errors import MissingExtraError
from manyheads.core.files import write_whole
from manyheads.report.paper import SIZES, pdf_from_sheets, require_paper
from manyheads.report.paper_worksheet import sheets_from_worksheet
from manyheads.worksheets.library import worksheet, worksheet_names

_FOLDER = "paper"


def write_papers(files: Path) -> dict[str, Any]:
    """Write the PDFs into `files`/paper and return the list of them.

    Without typst the list is empty, and the page says so.
    """
    folder = files / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.pdf"):
        old.unlink()
    try:
        require_paper()
        papers = list(_papers(folder))
    except MissingExtraError as error:
        sys.stderr.write(f"no printed worksheets for the page: {error}\n")
        papers = []
    return {"format": 1, "papers": papers}


def _papers(folder: Path) -> Iterator[dict[str, Any]]:
    for name in worksheet_names():
        sheets = sheets_from_worksheet(worksheet(name))
        for kind in ("blank", "key"):
            for size in SIZES:
                path = folder / f"{name}-{kind}-{size}.pdf"
                data = pdf_from_sheets(sheets, is_key=kind == "key", size=size)
                write_whole(path, data)
                yield {
                    "worksheet": name,
                    "title": sheets.title,
                    "kind": kind,
                    "paper": size,
                    "path": f"{_FOLDER}/{path.name}",
                    "size": len(data),
                }
