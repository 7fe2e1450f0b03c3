"""Only the command line writes to standard output."""

import ast
from pathlib import Path

import pytest

from tests.house.sources import PACKAGE, module_name, python_files

OUTSIDE_CLI = [path for path in python_files("src") if PACKAGE / "cli" not in path.parents]


def output_writes(tree: ast.AST) -> list[int]:
    """The lines that print, or that name our own standard output (not that of a child)."""
    lines = []
    for node in ast.walk(tree):
        is_print = isinstance(node, ast.Name) and node.id == "print"
        is_stream = isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.stdout"
        if is_print or is_stream:
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize("path", OUTSIDE_CLI, ids=module_name)
def test_library_does_not_write_to_standard_output(path: Path) -> None:
    assert not output_writes(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("code", ["print(1)", "import sys; sys.stdout.write('x')", "map(print, x)"])
def test_a_write_to_standard_output_is_found(code: str) -> None:
    assert output_writes(ast.parse(code)) == [1]
