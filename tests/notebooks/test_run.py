"""Every notebook runs top to bottom in a folder of its own, without a warning, within its time."""

import ast
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from manyheads.learn.notebooks import notebook_from_source, notebook_sources

pytest.importorskip("nbclient", reason="nbclient is missing: install the notebooks extra")

from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from tests.notebooks.kernels import LIMIT_SECONDS, Run, complaints, execute, own_kernel

QUICK = ("01", "03")
SOURCES = notebook_sources()
TIMED = [
    pytest.param(path, id=path.stem, marks=() if path.stem[:2] in QUICK else pytest.mark.slow)
    for path in SOURCES
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[NotebookNode], Run]:
    """Runs a notebook in an empty folder."""
    own_kernel(tmp_path / "jupyter", monkeypatch)
    place = tmp_path / "place"
    place.mkdir()
    return lambda notebook: execute(notebook, place)


def outputs(notebook: NotebookNode) -> list[NotebookNode]:
    """The outputs of all cells."""
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def assertions(notebook: NotebookNode) -> int:
    """How many assertions the cells hold."""
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return sum(isinstance(node, ast.Assert) for text in cells for node in ast.walk(ast.parse(text)))


@pytest.mark.parametrize("source", TIMED)
def test_notebook_runs_top_to_bottom(
    source: Path, run: Callable[[NotebookNode], Run], tmp_path: Path
) -> None:
    done = run(notebook_from_source(source))
    print(f"{source.stem}: {done.seconds:.1f} s")  # noqa: T201 - figures, shown by -rP
    assert done.seconds < LIMIT_SECONDS
    assert not complaints(done.notebook)
    assert not list((tmp_path / "place").iterdir()), "a notebook must leave nothing behind"
    assert any("image/png" in output.get("data", {}) for output in outputs(done.notebook))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_notebook_asserts_what_it_shows(source: Path) -> None:
    assert assertions(notebook_from_source(source)) >= 10


def sample(tmp_path: Path, cell: str) -> NotebookNode:
    """A notebook of a title and one cell."""
    path = tmp_path / "sample.py"
    path.write_text(f"# %% [markdown]\n# # Sample\n\n# %%\n{cell}\n", encoding="utf-8")
    return notebook_from_source(path)


def test_an_assertion_that_breaks_fails_the_run(
    run: Callable[[NotebookNode], Run], tmp_path: Path
) -> None:
    source = next(path for path in SOURCES if path.stem == "01-step-by-step")
    text = source.read_text(encoding="utf-8")
    spoiled = text.replace("/ math.sqrt(2)", "/ math.sqrt(4)")  # the width of the model
    assert spoiled != text
    path = tmp_path / "spoiled.py"
    path.write_text(spoiled, encoding="utf-8")
    with pytest.raises(CellExecutionError, match="Tensor-likes are not close"):
        run(notebook_from_source(path))


def test_a_warning_in_a_cell_is_found(run: Callable[[NotebookNode], Run], tmp_path: Path) -> None:
    done = run(sample(tmp_path, "import warnings\nwarnings.warn('beware')"))
    assert "beware" in complaints(done.notebook)[0]


def test_the_kernel_is_this_interpreter(run: Callable[[NotebookNode], Run], tmp_path: Path) -> None:
    done = run(sample(tmp_path, "import sys\nprint(sys.executable)"))
    assert outputs(done.notebook)[0].text.strip() == sys.executable
