"""The tasks of the ladder: each is one file in `tasks/`, and this module reads them.

A file has the text of the task, how its arguments are drawn, hints, and answers in several styles.
The first answer is the solution, and what a learner's code is compared with. Each answer lists
mistakes as replacements of its text. So the same lines name a learner's mistake, give the code of
the repair tasks, and test the judge.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from manyheads.core.errors import LearnError
from manyheads.core.text import brief
from manyheads.faults.catalogue import FAULT_KINDS

REPAIR = "repair-"
"""How the names of repair tasks begin."""
_FOLDER = Path(__file__).parent / "tasks"
_IMPORTS = "import math\n\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One mistake, as a replacement in the text of an answer."""

    fault: str
    """Id of a known fault, or a name of its own."""
    old: str
    """The right code."""
    new: str
    """The wrong code."""
    says: str
    """What the wrong code does, in one sentence without a full stop."""
    fix: str
    """The remedy, in one line."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A right answer, and mistakes that can be made in it."""

    style: str
    """How it is written, in a few words."""
    code: str
    """Its text, without imports."""
    mistakes: tuple[Mistake, ...] = ()
    """Replacements that make it wrong."""
    breaks: str | None = None
    """The constraint that it does not keep, though its numbers are right."""

    def with_mistake(self, mistake: Mistake) -> str:
        """The text of the answer with one of its mistakes.

        Raises:
            LearnError: the answer does not have the text that the mistake replaces.
        """
        if mistake.old not in self.code:
            raise LearnError(
                f"old ({brief(mistake.old)}) is not in the answer {self.style!r}: correct the task"
            )
        return self.code.replace(mistake.old, mistake.new)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task of the ladder."""

    name: str
    """Its name on the command line."""
    title: str
    """A few words."""
    entry: str
    """The name of the function or class to write."""
    text: str
    """What to compute."""
    arguments: Mapping[str, str]
    """How each argument of the call is drawn; see `case.py`."""
    answers: tuple[Answer, ...]
    """Right answers; the first is the solution."""
    hints: tuple[str, ...]
    """Three, the last is a line of code."""
    build: tuple[str, ...] = ()
    """Arguments of the constructor, as sizes; empty for a function."""
    probe: str = ""
    """Code of `probe(f, ...)`, which calls the answer; by default one call."""
    constraints: tuple[str, ...] = ()
    """Names of `constraints.py`."""
    has_gradients: bool = True
    """Whether gradients are compared."""
    imports: str = _IMPORTS
    """First lines of the learner's file."""
    declared: Mapping[str, Any] = field(default_factory=dict)
    """What `manyheads.check` is told of a module that stores its weights in another way."""
    card: str = ""
    """The recall card that belongs to it."""
    frame: str = ""
    """The frame of the story that shows it."""
    seed: int | None = None
    """Of a repair task."""

    @property
    def solution(self) -> Answer:
        """The answer that learners are shown."""
        return self.answers[0]

    @property
    def is_module(self) -> bool:
        """Whether the answer is a class that is built first."""
        return bool(self.build)

    @property
    def base(self) -> str:
        """The name of the task that a repair task is made of; its own name otherwise."""
        return self.name.removeprefix(REPAIR)


@cache
def _files() -> dict[str, Path]:
    """The files by name, in the order of the ladder, which the number in a file's name gives."""
    return {p.stem.partition("-")[2]: p for p in sorted(_FOLDER.glob("[0-9][0-9]-*.toml"))}


def task_names() -> tuple[str, ...]:
    """The names of all tasks, in the order of the ladder; repair tasks are not among them."""
    return tuple(_files())


@cache
def task(name: str) -> Task:
    """The task of a name.

    Args:
        name: one of `task_names()`.

    Raises:
        LearnError: there is none.
    """
    if name not in _files():
        near = get_close_matches(name, task_names(), n=1)
        use = f"use {near[0]}" if near else "run `manyheads practice` to see all names"
        raise LearnError(f"task ({brief(name)}) does not exist: {use}")
    row = tomllib.loads(_files()[name].read_text(encoding="utf-8"))
    row["answers"] = tuple(_answer(answer) for answer in row["answers"])
    for key in ("hints", "build", "constraints"):
        row[key] = tuple(row.get(key, ()))
    return Task(name=name, **row)


def _answer(row: dict[str, Any]) -> Answer:
    mistakes = tuple(_mistake(*fields) for fields in row.pop("mistakes", ()))
    return Answer(mistakes=mistakes, **row)


def _mistake(fault: str, old: str, new: str, says: str = "") -> Mistake:
    kind = FAULT_KINDS.get(fault)
    return Mistake(
        fault=fault,
        old=old,
        new=new,
        says=says or (kind.what if kind else ""),
        fix=kind.fix if kind and not says else "",
    )
