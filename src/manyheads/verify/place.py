"""A line of somebody's source: its path, the lines around it, and an error raised there."""

import ast
import linecache
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from manyheads.core.text import printable
from manyheads.verify.findings import Result, Where

AROUND = 6
"""Number of lines shown before and after the line of a finding."""
_LARGEST_FILE = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """Some lines of a source file."""

    first: int
    """Number of the first line, counted from 1."""
    lines: tuple[str, ...]
    """The lines, without what could steer a terminal."""
    marked: int
    """Number of the line that is meant."""


def excerpt(where: Where, around: int = AROUND) -> Excerpt | None:
    """The lines around a place; None where the file cannot be read or has changed since.

    Args:
        where: the place.
        around: number of lines before and after it.
    """
    lines = _source(where)
    if where.line is None or not lines:
        return None
    first = max(1, where.line - around)
    near = lines[first - 1 : where.line + around]
    kept = [printable(line.rstrip().expandtabs(4)) for line in near]
    while kept and not kept[-1]:
        kept.pop()
    return Excerpt(first=first, lines=tuple(kept), marked=where.line)


def _source(where: Where) -> list[str]:
    """The lines of the file of a place, if that line still holds its code."""
    name = where.file or ""
    if name not in linecache.cache:  # cells of a notebook are there and nowhere else
        path = Path(name)
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            return []
    linecache.checkcache(name)
    lines = linecache.getlines(name)
    number = where.line or 0
    is_there = 0 < number <= len(lines) and lines[number - 1].strip() == where.code.strip()
    return lines if is_there else []


def shown_path(file: str) -> str:
    """A path that can be opened from the current folder: relative below it, else as it is."""
    path = Path(file)
    here = Path.cwd()
    return printable(str(path.relative_to(here)) if path.is_relative_to(here) else file)


def given_path(result: Result, file: str) -> str:
    """The path as the subject was given if it is the subject's own file, else the absolute path."""
    given = result.target.rpartition(":")[0]
    if result.folder is None or not given.endswith(".py"):
        return file
    own = os.path.realpath(Path(result.folder) / given)
    return given if own == os.path.realpath(file) else file


def raise_at(error: BaseException, where: Where | None) -> NoReturn:
    """Raise an error with one more frame, at a line of a source file, for whoever shows it.

    Tracebacks, debuggers and pytest then show that line and the function around it.

    Args:
        error: what to raise.
        where: the line; without one that can be read, the error is raised here.
    """
    __tracebackhide__ = True
    lines = [] if where is None else _source(where)
    if where is None or where.line is None or not lines:
        raise error
    name, first = _function_at(lines, where.line)
    tree = _raising_at(where.line - first + 1, lines[where.line - 1])
    code = compile(tree, where.file or "", "exec")
    exec(code.replace(co_name=name, co_firstlineno=first), {"error": error})
    raise error


def _raising_at(number: int, line: str) -> ast.Module:
    """The statement `raise error`, as if it were the whole of a line."""
    tree = ast.parse("raise error")
    start, end = len(line) - len(line.lstrip()), len(line.rstrip())
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr):
            node.lineno = node.end_lineno = number
            node.col_offset, node.end_col_offset = start, end
    return tree


def _function_at(lines: list[str], number: int) -> tuple[str, int]:
    """Name and first line of the innermost function around a line."""
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return "<module>", number
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= number <= (node.end_lineno or node.lineno)
    ]
    inner = max(around, key=lambda node: node.lineno, default=None)
    return ("<module>", number) if inner is None else (inner.name, inner.lineno)
