"""Writes the file, or the notebook, in which a learner answers a task."""

import ast
import json
from pathlib import Path
from textwrap import wrap

from manyheads.core.errors import LearnError
from manyheads.core.files import reason_of, write_whole
from manyheads.practice.constraints import CONSTRAINTS
from manyheads.practice.repairs import broken_code
from manyheads.practice.task import Task, task_names

_STUB = 'raise NotImplementedError("write your answer here")'
_WIDTH = 98
_REPAIR = "This code has one mistake. Find it and fix it; any right code counts. What it should do:"


def starter(task: Task) -> str:
    """The text of the file with which a learner begins."""
    code = stub(task) if task.seed is None else broken_code(task)
    call = _call(task)
    return (
        f'"""{task.title}\n\n{_text(task)}\n"""\n\n{task.imports}\n\n{code.strip()}\n\n\n'
        f'if __name__ == "__main__":\n    from manyheads.practice import judge\n\n'
        f"    print({call})\n"
    )


def write_starter(task: Task, folder: Path, *, force: bool = False) -> Path:
    """Write the file of a task to a folder, which is created if it does not exist.

    Args:
        task: the task.
        folder: where to.
        force: replace a file of this name.

    Raises:
        LearnError: the file is there already, or cannot be written.
    """
    return _write(folder / f"{task.name}.py", starter(task), force)


def write_notebook(task: Task | None, folder: Path, *, force: bool = False) -> Path:
    """Write the notebook of a task, or of the whole ladder, to a folder.

    Args:
        task: the task; None for all.
        folder: where to; it is created if it does not exist.
        force: replace a file of this name.

    Raises:
        LearnError: the file is there already, or cannot be written.
    """
    from manyheads.practice.task import task as read_task

    tasks = [task] if task is not None else [read_task(name) for name in task_names()]
    cells = [_markdown("# Practice: write attention yourself\n\nRun a cell to judge your answer.")]
    for one in tasks:
        cells += [_markdown(f"## {one.title}\n\n{_text(one)}"), _code(_cell(one))]
    for number, cell in enumerate(cells, start=1):
        cell["id"] = f"cell-{number:02d}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    name = task.name if task is not None else "practice"
    return _write(folder / f"{name}.ipynb", json.dumps(document, indent=1) + "\n", force)


def _markdown(text: str) -> dict[str, object]:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _code(text: str) -> dict[str, object]:
    cell: dict[str, object] = {"cell_type": "code", "metadata": {}, "source": text}
    return {**cell, "execution_count": None, "outputs": []}


def _write(path: Path, text: str, force: bool) -> Path:
    if path.exists() and not force:
        raise LearnError(f"file ({path}) exists: use another folder, or --force to replace it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise LearnError(
            f"DIR ({path.parent}) cannot hold {path.name} ({reason_of(error)}): use another one"
        ) from error
    return path


def _cell(task: Task) -> str:
    code = stub(task) if task.seed is None else broken_code(task)
    lead = f"{task.imports}\nfrom manyheads.practice import judge"
    return f"{lead}\n\n\n{code.strip()}\n\n\n{_call(task)}"


def _call(task: Task) -> str:
    seed = "" if task.seed is None else f", seed={task.seed}"
    return f'judge("{task.name}", {task.entry}{seed})'


def _text(task: Task) -> str:
    """The text of a task with its constraints."""
    parts = [] if task.seed is None else [_REPAIR]
    parts += task.text.strip().split("\n\n")
    if task.constraints:
        says = ", ".join(CONSTRAINTS[name][0] for name in task.constraints)
        parts.append(f"Constraint, checked by watching the run: {says}.")
    return "\n\n".join("\n".join(wrap(part, _WIDTH)) for part in parts)


def stub(task: Task) -> str:
    """The solution without its body; of a class, the constructor stays."""
    code = task.solution.code.strip()
    for node in ast.parse(code).body:
        if getattr(node, "name", None) != task.entry:
            continue
        if isinstance(node, ast.FunctionDef):
            return f"{_head(code, node)}\n    {_STUB}"
        if isinstance(node, ast.ClassDef):
            methods = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef)}
            built, forward = methods["__init__"], methods["forward"]
            lines = code.splitlines()
            kept = lines[node.lineno - 1 : built.end_lineno]
            return "\n".join([*kept, "", _head(code, forward), f"        {_STUB}"])
    raise LearnError(f"task ({task.name}) has no {task.entry} in its solution: correct the file")


def _head(code: str, node: ast.FunctionDef) -> str:
    """The lines of a function before its body."""
    return "\n".join(code.splitlines()[node.lineno - 1 : node.body[0].lineno - 1])
