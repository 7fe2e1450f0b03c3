"""The notebooks are found, become valid notebooks, and never replace what a learner changed."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from manyheads.core.errors import LearnError
from manyheads.learn.notebooks import (
    PLAIN_FILE,
    notebook_from_source,
    notebook_sources,
    plain_implementation,
    write_notebooks,
)
from manyheads.verify import check
from tests.house.sources import ROOT

nbformat = pytest.importorskip("nbformat", reason="nbformat is missing: install notebooks extra")
pytest.importorskip("jupytext", reason="jupytext is missing: install the notebooks extra")

SOURCES = notebook_sources()
PLACEHOLDERS = re.compile(r"\b(TODO|FIXME|XXX)\b")


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_checkout_has_its_notebooks_numbered_without_a_gap() -> None:
    assert {path.parent for path in SOURCES} == {ROOT / "notebooks"}
    assert [path.stem[:2] for path in SOURCES] == [f"{n:02d}" for n in range(1, len(SOURCES) + 1)]


def test_the_folder_of_an_installed_wheel_comes_first(tmp_path: Path) -> None:
    wheel, checkout = tmp_path / "notebook_texts", tmp_path / "notebooks"
    for folder in (wheel, checkout):
        folder.mkdir()
        (folder / "01-a.py").touch()
    (checkout / "notes.py").touch()
    assert notebook_sources((wheel, checkout)) == (wheel / "01-a.py",)
    (wheel / "01-a.py").unlink()
    assert notebook_sources((wheel, checkout)) == (checkout / "01-a.py",)


def test_missing_notebooks_are_said(tmp_path: Path) -> None:
    with pytest.raises(LearnError, match=f"notebooks .{tmp_path}.*install manyheads again"):
        notebook_sources((tmp_path, tmp_path / "none"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_notebook_has_one_cell_to_try(source: Path) -> None:
    cells = notebook_from_source(source).cells
    asked = [index for index, cell in enumerate(cells) if cell.source.startswith("## Try it")]
    assert len(asked) == 1
    assert cells[asked[0] + 1].cell_type == "code"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_notebook_is_valid_and_opens_with_its_title(source: Path) -> None:
    notebook = notebook_from_source(source)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids) >= 10
    for cell in notebook.cells:
        assert cell.source.strip()
        assert not PLACEHOLDERS.search(cell.source)
        assert cell.cell_type != "code" or (cell.outputs, cell.execution_count) == ([], None)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_notebook_has_no_magic_and_one_heading(source: Path) -> None:
    notebook = notebook_from_source(source)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            ast.parse(cell.source)
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert len(re.findall("^# ", "\n".join(texts), re.M)) == 1
    assert max(len(line) for line in source.read_text(encoding="utf-8").splitlines()) <= 100


def test_the_same_text_gives_the_same_bytes(tmp_path: Path) -> None:
    write_notebooks(tmp_path / "a")
    write_notebooks(tmp_path / "b")
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert len(content(tmp_path / "a")) == len(SOURCES)


def test_writing_again_leaves_equal_files_alone(tmp_path: Path) -> None:
    assert {item.state for item in write_notebooks(tmp_path / "made" / "deep")} == {"written"}
    first = SOURCES[0].stem
    path = tmp_path / "made" / "deep" / f"{first}.ipynb"
    before = path.stat().st_mtime_ns
    assert {item.state for item in write_notebooks(path.parent)} == {"unchanged"}
    assert path.stat().st_mtime_ns == before


def test_a_changed_notebook_stops_all_writing(tmp_path: Path) -> None:
    write_notebooks(tmp_path)
    first, *_, last = (tmp_path / f"{source.stem}.ipynb" for source in SOURCES)
    first.unlink()
    document = json.loads(last.read_text(encoding="utf-8"))
    document["cells"][0]["source"] = ["mine"]
    last.write_text(json.dumps(document), encoding="utf-8")
    before = content(tmp_path)
    with pytest.raises(LearnError, match=rf"DIR .{tmp_path}.*{last.name}\): .*--force"):
        write_notebooks(tmp_path)
    assert content(tmp_path) == before
    states = {item.path: item.state for item in write_notebooks(tmp_path, force=True)}
    assert (states[first], states[last]) == ("written", "replaced")
    assert '"mine"' not in last.read_text(encoding="utf-8")


def test_a_link_to_nowhere_and_a_folder_count_as_changed(tmp_path: Path) -> None:
    first, second, *_ = (tmp_path / f"{source.stem}.ipynb" for source in SOURCES)
    first.symlink_to(tmp_path / "gone")
    second.mkdir()
    with pytest.raises(LearnError, match=f"{first.name}, {second.name}"):
        write_notebooks(tmp_path)
    with pytest.raises(
        LearnError, match=rf"DIR \(.*\) cannot hold {second.name} .*not a regular file"
    ):
        write_notebooks(tmp_path, force=True)
    assert second.is_dir()


def test_a_file_in_the_way_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LearnError, match=f"DIR .{place}. cannot be a folder .*another"):
            write_notebooks(place)


def test_the_docs_page_lists_every_notebook_and_no_other() -> None:
    page = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([0-9][^`]*)` \|", page, re.M)
    assert listed == [source.stem for source in SOURCES]


def test_the_plain_layer_imports_nothing_of_the_package_and_agrees_with_torch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = plain_implementation()
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
        )
    }
    assert imported == {"math", "torch"}
    assert len(text.splitlines()) <= 70
    exec(compile(text, PLAIN_FILE, "exec"), {"__name__": "__main__"})
    assert "the same as nn.MultiheadAttention" in capsys.readouterr().out


def test_the_plain_layer_is_sound() -> None:
    scope: dict[str, Any] = {"__name__": "plain"}
    exec(compile(plain_implementation(), PLAIN_FILE, "exec"), scope)
    layer = scope["MultiHeadAttention"](8, 2)
    assert check(layer, embed_dim=8, num_heads=2).verdict == "sound"
    with pytest.raises(ValueError, match=r"num_heads=3 must divide embed_dim=8"):
        scope["MultiHeadAttention"](8, 3)
