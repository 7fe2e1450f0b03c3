"""The notebooks: their sources, and how they become files for Jupyter.

Each source is `notebooks/NN-name.py` in the percent format of jupytext, which people can read and
compare. Running them is left to Jupyter, and to the tests.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from manyheads.core.errors import LearnError
from manyheads.core.extras import require
from manyheads.core.files import reason_of, write_whole

if TYPE_CHECKING:
    from nbformat import NotebookNode

State = Literal["written", "unchanged", "replaced"]

_PACKAGE = Path(__file__).resolve().parents[1]
_PLACES = (_PACKAGE / "notebook_texts", _PACKAGE.parents[1] / "notebooks")  # a wheel, a checkout
PLAIN_FILE = "multihead_from_scratch.py"
"""The layer in one file, beside the notebooks."""
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class Written(NamedTuple):
    """One notebook in the user's folder."""

    name: str
    """Its name, such as 01-step-by-step."""
    title: str
    """Its first heading."""
    path: Path
    """The file."""
    state: State
    """Whether it was written, replaced, or there already with the same content."""


def notebook_sources(places: Sequence[Path] = _PLACES) -> tuple[Path, ...]:
    """The texts of the notebooks, in their order.

    Args:
        places: folders to look in; the first that has texts is taken.

    Raises:
        LearnError: none has any.
    """
    for place in places:
        if found := sorted(place.glob("[0-9][0-9]-*.py")):
            return tuple(found)
    raise LearnError(
        f"notebooks ({places[0]}) are not in this installation: install manyheads again"
    )


def plain_implementation(places: Sequence[Path] = _PLACES) -> str:
    """The text of a complete attention layer in one file, which imports nothing but PyTorch."""
    return (notebook_sources(places)[0].parent / PLAIN_FILE).read_text(encoding="utf-8")


def notebook_from_source(source: Path) -> "NotebookNode":
    """Make a notebook without outputs of its text; the same text always gives the same notebook.

    Args:
        source: a text in the percent format.

    Raises:
        MissingExtraError: jupytext is not installed.
    """
    require("notebooks", "jupytext", purpose="writing notebooks")
    import jupytext

    text = source.read_text(encoding="utf-8")
    notebook: NotebookNode = jupytext.reads(text, fmt="py:percent")
    notebook.metadata.clear()
    notebook.metadata.update(_METADATA)
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number:02d}"
        cell.metadata.pop("lines_to_next_cell", None)
    return notebook


def write_notebooks(folder: Path, force: bool = False) -> tuple[Written, ...]:
    """Write all notebooks to a folder; it is created if it does not exist.

    Args:
        folder: where to.
        force: replace files of these names whatever is in them; otherwise a file that holds
            anything else stops all writing.

    Raises:
        LearnError: jupytext is missing, the folder cannot be made, files there differ, or a file
            cannot be written; those before it are whole.
    """
    made = [(source.stem, notebook_from_source(source)) for source in notebook_sources()]
    planned = [_planned(folder, name, notebook) for name, notebook in made]
    changed = [item.path.name for item, _ in planned if item.state == "replaced"]
    if changed and not force:
        raise LearnError(
            f"DIR ({folder}) has changed files ({', '.join(changed)}): "
            "use another folder, or --force to replace them"
        )
    _make(folder)
    for item, data in planned:
        if item.state != "unchanged":
            _write(folder, item.path, data)
    return tuple(item for item, _ in planned)


def _planned(folder: Path, name: str, notebook: "NotebookNode") -> tuple[Written, bytes]:
    """What there is to do for one notebook, and its content."""
    from nbformat import writes

    text = writes(notebook)  # type: ignore[no-untyped-call]  # nbformat annotates nothing
    path, data = folder / f"{name}.ipynb", f"{text}\n".encode()
    title = notebook.cells[0].source.splitlines()[0].lstrip("# ")
    return Written(name, title, path, _state(path, data)), data


def _state(path: Path, data: bytes) -> State:
    try:
        return "unchanged" if path.read_bytes() == data else "replaced"
    except (FileNotFoundError, NotADirectoryError):
        return "replaced" if path.is_symlink() else "written"
    except OSError:  # a folder, or a file that may not be read
        return "replaced"


def _write(folder: Path, path: Path, data: bytes) -> None:
    try:
        write_whole(path, data)
    except OSError as error:
        raise LearnError(
            f"DIR ({folder}) cannot hold {path.name} ({reason_of(error)}): free some space, or use "
            "another folder"
        ) from error


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LearnError(
            f"DIR ({folder}) cannot be a folder ({reason_of(error)}): use another one"
        ) from error
