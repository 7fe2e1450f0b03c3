"""Rules for every source file. Each test lists all offenders, and each rule has bad samples."""

import ast
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.house.sources import (
    PACKAGE,
    ROOT,
    FunctionNode,
    nodes_of,
    place,
    python_files,
    web_files,
)

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 40
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "misc"}
FRAGMENT = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.(added|changed|fixed|removed)\.md")

PACKAGE_FILES = python_files("src")
PYTHON_FILES = python_files("src", "tests", "tools", "benchmarks", "scripts")
FRAGMENTS = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]


def long_file(path: Path) -> list[str]:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    if lines <= MAX_FILE_LINES:
        return []
    return [
        f"{place(path, lines)} has {lines} lines: split it, at most {MAX_FILE_LINES} are allowed"
    ]


def code_lines(node: FunctionNode) -> int:
    """Lines of a function from its `def` on, without the docstring."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is not None:
        docstring = node.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def long_functions(path: Path) -> list[str]:
    found = (node for node in nodes_of(path) if isinstance(node, FunctionNode))
    sizes = ((node, code_lines(node)) for node in found)
    return [
        f"{place(path, node.lineno)} {node.name} has {lines} lines: split it, "
        f"at most {MAX_FUNCTION_LINES} are allowed"
        for node, lines in sizes
        if lines > MAX_FUNCTION_LINES
    ]


def empty_names(path: Path) -> list[str]:
    """The parts of a path that do not tell what is in it."""
    inside = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    names = (*inside.parts[:-1], inside.stem)
    return [f"{inside}: rename {name}" for name in names if name.lstrip("_") in EMPTY_NAMES]


def root_imports(path: Path) -> list[str]:
    """Imports from the root package instead of the module that has the name."""
    found: list[str] = []
    if path == PACKAGE / "__init__.py":
        return found
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            is_root = any(alias.name == "manyheads" for alias in node.names)
        else:
            is_root = isinstance(node, ast.ImportFrom) and (
                node.module == "manyheads" or node.level > 0
            )
        if is_root:
            found.append(f"{place(path, node.lineno)} must import from the module")
    return found


def output_writes(path: Path) -> list[str]:
    """Lines that print, or that name our own standard output (not that of a child process)."""
    if PACKAGE / "cli" in path.parents:
        return []
    return [
        f"{place(path, node.lineno)} writes to standard output: only cli/ may"
        for node in nodes_of(path)
        if (isinstance(node, ast.Name) and node.id == "print")
        or (isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.stdout")
    ]


def missing_docstring(path: Path) -> list[str]:
    module = nodes_of(path)[0]
    assert isinstance(module, ast.Module)
    return [] if ast.get_docstring(module) else [f"{place(path, 1)} must say what it is for"]


def bad_fragment(path: Path) -> list[str]:
    """A changelog fragment with another kind of name, or without text."""
    is_good = FRAGMENT.fullmatch(path.name) and path.read_text(encoding="utf-8").strip()
    return [] if is_good else [f"{path.name} must be named <slug>.<kind>.md and have a text"]


Rule = Callable[[Path], list[str]]
RULES: list[tuple[Rule, Iterable[Path]]] = [
    (long_file, [*PYTHON_FILES, *web_files()]),
    (long_functions, PYTHON_FILES),
    (empty_names, [*PACKAGE_FILES, *web_files()]),
    (root_imports, PACKAGE_FILES),
    (output_writes, PACKAGE_FILES),
    (missing_docstring, PACKAGE_FILES),
    (bad_fragment, FRAGMENTS),
]
LINE = "    x = 1\n"
BAD_SAMPLES: list[tuple[Rule, str, str]] = [
    (long_file, "sample.ts", "x\n" * 501),
    (long_functions, "sample.py", f"def long():\n{LINE * 40}"),
    (empty_names, "utils.py", ""),
    (empty_names, "helpers/masks.py", ""),
    (empty_names, "_common.py", ""),
    (root_imports, "sample.py", "import manyheads as mh"),
    (root_imports, "sample.py", "from manyheads import trace"),
    (root_imports, "sample.py", "from . import masks"),
    (output_writes, "sample.py", "print(1)"),
    (output_writes, "sample.py", "import sys; sys.stdout.write('x')"),
    (output_writes, "sample.py", "map(print, x)"),
    (missing_docstring, "sample.py", "x = 1"),
    (bad_fragment, "New_Thing.added.md", "x"),
    (bad_fragment, "thing.md", "x"),
    (bad_fragment, "thing.new.md", "x"),
    (bad_fragment, "a.fixed.md", " \n"),
]
GOOD_SAMPLES: list[tuple[Rule, str, str]] = [
    (long_file, "sample.ts", "x\n" * 500),
    (long_functions, "sample.py", f"def short():\n    '''A\n    docstring.'''\n{LINE * 39}"),
    (empty_names, "core/masks.py", ""),
    (root_imports, "sample.py", "from manyheads.core.masks import causal_mask"),
    (output_writes, "sample.py", "child.stdout.read()"),
    (missing_docstring, "sample.py", '"""A module."""'),
    (bad_fragment, "three-forms.added.md", "Three forms.\n"),
]


@pytest.mark.parametrize(("rule", "paths"), RULES, ids=[rule.__name__ for rule, _ in RULES])
def test_sources_keep_the_rule(rule: Rule, paths: Iterable[Path]) -> None:
    assert list(paths)
    offenders = [complaint for path in paths for complaint in rule(path)]
    assert not offenders, "\n".join(offenders)


@pytest.mark.parametrize("rule", [rule for rule, _ in RULES], ids=lambda rule: rule.__name__)
def test_rule_rejects_bad_samples_and_accepts_good_ones(rule: Rule, tmp_path: Path) -> None:
    counted = [0, 0]
    for count, samples in enumerate((GOOD_SAMPLES, BAD_SAMPLES)):
        for i, (_, name, text) in enumerate(sample for sample in samples if sample[0] is rule):
            path = tmp_path / f"{count}-{i}" / name
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8")
            assert len(rule(path)) == count, name
            counted[count] += 1
    assert min(counted) > 0
