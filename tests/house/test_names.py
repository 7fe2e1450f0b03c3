"""Names that say nothing are not used, and the package is imported module by module."""

import ast
from pathlib import Path

import pytest

from tests.house.sources import PACKAGE, module_name, place, python_files, web_files

EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "misc"}
SOURCES = python_files("src")


def empty_names(path: Path) -> list[str]:
    """The parts of a path that say nothing about what is in it."""
    return [part for part in (*path.parts[:-1], path.stem) if part.lstrip("_") in EMPTY_NAMES]


def root_imports(tree: ast.AST) -> list[int]:
    """The lines that import from the root package instead of a module."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = any(alias.name == "manyheads" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found = node.module == "manyheads" or node.level > 0
        else:
            found = False
        if found:
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize("path", SOURCES + web_files(), ids=lambda path: place(path, 1))
def test_file_is_named_for_its_idea(path: Path) -> None:
    assert not empty_names(Path(place(path, 1)).parent / path.name)


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_package_imports_from_modules_and_never_from_the_root(path: Path) -> None:
    lines = root_imports(ast.parse(path.read_text(encoding="utf-8")))
    assert not lines, f"{place(path, lines[0])} must import from the module that has the name"


@pytest.mark.parametrize("path", ["core/utils.py", "helpers/masks.py", "_common.py"])
def test_an_empty_name_is_found(path: str) -> None:
    assert len(empty_names(Path(path))) == 1


@pytest.mark.parametrize(
    "line", ["import manyheads as mh", "from manyheads import trace", "from . import masks"]
)
def test_an_import_from_the_root_is_found(line: str) -> None:
    assert root_imports(ast.parse(line)) == [1]


def test_every_room_is_a_folder_with_a_docstring() -> None:
    rooms = [path.parent for path in PACKAGE.glob("*/__init__.py")]
    assert len(rooms) >= 5
    for room in rooms:
        tree = ast.parse((room / "__init__.py").read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), f"{room.name}/__init__.py must say what the room is for"
