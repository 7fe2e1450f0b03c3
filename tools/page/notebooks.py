"""The notebooks of the page: the files, and what each is about, by its sections."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from manyheads.core.errors import MissingExtraError
from manyheads.core.files import write_whole
from manyheads.learn.notebooks import PLAIN_FILE, plain_implementation, write_notebooks

_FOLDER = "notebooks"


def notebook_files(files: Path) -> dict[str, Any]:
    """Write the notebooks and the plain implementation into `files`/notebooks, and list them.

    Without jupytext only the plain implementation is there, and the page says so.
    """
    folder = files / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.ipynb"):
        old.unlink()
    plain = Path(PLAIN_FILE).with_suffix(".txt").name  # no module of this package
    write_whole(folder / plain, plain_implementation().encode())
    try:
        notebooks = list(_notebooks(folder))
    except MissingExtraError as error:
        sys.stderr.write(f"no notebooks for the page: {error}\n")
        notebooks = []
    return {"format": 1, "plain": f"{_FOLDER}/{plain}", "notebooks": notebooks}


def _notebooks(folder: Path) -> Iterator[dict[str, Any]]:
    from nbformat import read

    for written in write_notebooks(folder):
        cells = read(written.path, as_version=4).cells  # type: ignore[no-untyped-call]
        headings = [
            (number, line.removeprefix("## "))
            for number, cell in enumerate(cells, start=1)
            for line in cell.source.splitlines()
            if cell.cell_type == "markdown" and line.startswith("## ")
        ]
        yield {
            "name": written.name,
            "title": written.title,
            "path": f"{_FOLDER}/{written.path.name}",
            "sections": [{"cell": number, "title": title} for number, title in headings],
        }
