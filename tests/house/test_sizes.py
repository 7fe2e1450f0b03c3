"""Files have at most 500 lines, and functions at most 40 beside their docstring."""

import ast
from pathlib import Path

import pytest

from tests.house.sources import FunctionNode, functions, place, python_files, web_files

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 40

PYTHON = python_files("src", "tests", "benchmarks", "scripts")


def long_file(path: Path) -> list[str]:
    """A complaint if the file is too long."""
    lines = len(path.read_text(encoding="utf-8").splitlines())
    if lines <= MAX_FILE_LINES:
        return []
    return [f"{place(path, lines)} has {lines} lines, allowed are {MAX_FILE_LINES}: split it"]


def code_lines(node: FunctionNode) -> int:
    """Lines of a function from its `def` on, without the docstring."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is not None:
        docstring = node.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def long_functions(path: Path) -> list[str]:
    """A complaint for each function that is too long."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    complaints = []
    for node in functions(tree):
        lines = code_lines(node)
        if lines > MAX_FUNCTION_LINES:
            where = place(path, node.lineno)
            complaints.append(f"{where} {node.name} has {lines} lines, not {MAX_FUNCTION_LINES}")
    return complaints


@pytest.mark.parametrize("path", PYTHON + web_files(), ids=lambda path: place(path, 1))
def test_file_has_at_most_500_lines(path: Path) -> None:
    assert not long_file(path)


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: place(path, 1))
def test_functions_have_at_most_40_lines(path: Path) -> None:
    assert not long_functions(path)


def test_a_file_of_501_lines_is_found(tmp_path: Path) -> None:
    sample = tmp_path / "sample.ts"
    sample.write_text("x\n" * 501, encoding="utf-8")
    assert "501 lines" in long_file(sample)[0]


def test_a_function_of_41_lines_is_found_and_one_of_40_is_not(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    body = "    x = 1\n"
    text = f"def short():\n    '''A\n    docstring.'''\n{body * 39}\ndef long():\n{body * 40}"
    sample.write_text(text, encoding="utf-8")
    complaints = long_functions(sample)
    assert len(complaints) == 1
    assert "long has 41 lines" in complaints[0]
