"""Exercises as printed sheets: the questions with boxes, and a key with working and mistakes."""

import re
from collections.abc import Sequence

from manyheads.learn.exercises.form import Exercise, Given, Misconception
from manyheads.report.paper import (
    Band,
    Cell,
    Grid,
    Group,
    Heading,
    Lines,
    Row,
    Sheets,
    Words,
    on_paper,
)
from manyheads.report.paper_worksheet import answer_text
from manyheads.worksheets.display import fraction_text

_SHORT = 20
_ROOM = 3


def sheets_from_exercises(exercises: Sequence[Exercise], label: str) -> Sheets:
    """Lay exercises out for paper.

    Args:
        exercises: at least one.
        label: the command that makes the same sheet, for the foot of every page.
    """
    parts = tuple(_exercise_part(number, item) for number, item in enumerate(exercises, start=1))
    return Sheets(title="Exercises", label=label, parts=parts)


def _exercise_part(number: int, exercise: Exercise) -> Group:
    mistakes = [_mistake_line(item) for item in exercise.misconceptions]
    parts = (
        Heading(text=f"{number}  {exercise.title} ({exercise.id})"),
        Words(text=on_paper_text(exercise.prompt)),
        Band(grids=tuple(map(_given_grid, exercise.given))),
        _answer_grid(exercise),
        Lines(
            count=_ROOM,
            answers=(
                f"Working: {'; '.join(map(on_paper_text, exercise.working))}",
                *(["Known mistakes:", *mistakes] if mistakes else []),
            ),
        ),
    )
    return Group(parts=parts)


def on_paper_text(text: str) -> str:
    """Write a sentence for paper: numbers as by hand, hyphens unchanged."""
    words = (on_paper(word) if "sqrt(" in word else word for word in text.split(" "))
    return re.sub(r"(?<![\w)\]])-(?=\d)", "\N{MINUS SIGN}", " ".join(words))


def _mistake_line(item: Misconception) -> str:
    values = ", ".join(map(answer_text, item.values))
    return f"{values}: {on_paper_text(item.says)}"


def _given_grid(table: Given) -> Grid:
    rows = zip(table.row_labels, table.rows, strict=True)
    return Grid(
        title="" if table.is_facts else table.name,
        columns=("", "" if table.is_facts else table.column_labels[0], *table.column_labels[1:]),
        rows=tuple(
            Row(
                names=(name,),
                cells=tuple(Cell(text=on_paper(fraction_text(n))) for n in numbers),
            )
            for name, numbers in rows
        ),
    )


def _answer_grid(exercise: Exercise) -> Grid:
    boxes = [Cell(text=answer_text(number), is_answer=True) for number in exercise.answer]
    if max(map(len, exercise.asks)) <= _SHORT:
        row = Row(names=("answer",), cells=tuple(boxes))
        return Grid(title="", columns=("", *exercise.asks), rows=(row,))
    rows = [Row(names=(ask,), cells=(box,)) for ask, box in zip(exercise.asks, boxes, strict=True)]
    return Grid(title="", columns=("", "answer"), rows=tuple(rows))
