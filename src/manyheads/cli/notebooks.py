"""`manyheads notebooks`: copy the notebooks to a folder."""

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from manyheads.cli.types import FilePath

if TYPE_CHECKING:
    from manyheads.learn.notebooks import Written


@click.command()
@click.argument("folder", metavar="DIR", type=FilePath(file_okay=False))
@click.option(
    "--force", is_flag=True, help="Replace notebooks in DIR that you have run or changed."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def notebooks(folder: Path, force: bool, as_json: bool) -> None:
    r"""Copy the Jupyter notebooks, without outputs, to the folder DIR.

    The command creates DIR if it does not exist. If you have run or changed a notebook there, it
    writes nothing unless you use --force.

    \b
    Example:
      manyheads notebooks my-notebooks
    """
    from manyheads.learn.notebooks import write_notebooks

    written = write_notebooks(folder, force)
    click.echo(_document(folder, written) if as_json else _text(folder, written))


def _text(folder: Path, written: "tuple[Written, ...]") -> str:
    counts = Counter(item.state for item in written if item.state != "written")
    notes = ", ".join(f"{count} {state}" for state, count in counts.items())
    lines = [f"{len(written)} notebooks (.ipynb) are in {folder}{f' ({notes})' if notes else ''}:"]
    lines += [f"  {item.name:20}{item.title}" for item in written]
    lines += [
        f"Open them with: jupyter lab {shlex.quote(str(folder))}",
        "(to install JupyterLab: pip install jupyterlab)",
    ]
    return "\n".join(lines)


def _document(folder: Path, written: "tuple[Written, ...]") -> str:
    shown = [
        {"name": item.name, "title": item.title, "path": str(item.path), "state": item.state}
        for item in written
    ]
    return json.dumps({"folder": str(folder), "notebooks": shown})
