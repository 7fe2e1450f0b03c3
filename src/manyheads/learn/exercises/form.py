"""What an exercise consists of, its JSON form and its text; nothing is drawn or marked here."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from manyheads.core.tables import Table, text_from_table, wrapped
from manyheads.learn.exercises.drawing import Draws
from manyheads.worksheets.arithmetic import Number, float_of, is_exact
from manyheads.worksheets.display import fraction_text
from manyheads.worksheets.numbers import exact_text
from manyheads.worksheets.sheet import Row


def number_text(number: Number) -> str:
    """Write a number for JSON: the exact form if it is known, else `~` and the nearest float64."""
    return exact_text(number) if is_exact(number) else f"~{float_of(number)!r}"


def shown(numbers: Sequence[Number]) -> str:
    """Write numbers for a reader: `1/2, ln(2), 0`."""
    return ", ".join(fraction_text(number) for number in numbers)


def labels(word: str, count: int) -> tuple[str, ...]:
    """`word 1`, `word 2`, ..."""
    return tuple(f"{word} {i + 1}" for i in range(count))


def whole(*numbers: int) -> Row:
    """Whole numbers as exact ones."""
    return tuple(Fraction(number) for number in numbers)


@dataclass(frozen=True, kw_only=True)
class Given:
    """One table that is given, of exact numbers."""

    name: str
    """As readers know it: `W_Q`, `scores`."""
    rows: tuple[tuple[Number, ...], ...]
    """One tuple per row."""
    row_labels: tuple[str, ...]
    """The name of each row."""
    column_labels: tuple[str, ...]
    """The name of each column."""

    @property
    def is_facts(self) -> bool:
        """Whether the table is a list of named numbers, made by `facts`."""
        return self.column_labels == ("value",)

    def to_json(self) -> dict[str, Any]:
        """Name, rows as texts, and labels."""
        return {
            "name": self.name,
            "rows": [[number_text(number) for number in row] for row in self.rows],
            "row_labels": list(self.row_labels),
            "column_labels": list(self.column_labels),
        }

    def to_text(self) -> str:
        """The table in 80 columns."""
        pairs = zip(self.row_labels, self.rows, strict=True)
        table = Table(
            title="" if self.is_facts else self.name,
            columns=("", *self.column_labels),
            rows=tuple((label, *map(fraction_text, row)) for label, row in pairs),
        )
        return text_from_table(table)


def table(name: str, rows: Sequence[Sequence[Number]], row_word: str, column_word: str) -> Given:
    """A given table whose rows and columns are counted from 1."""
    return Given(
        name=name,
        rows=tuple(tuple(row) for row in rows),
        row_labels=labels(row_word, len(rows)),
        column_labels=labels(column_word, len(rows[0])),
    )


def facts(values: dict[str, int]) -> Given:
    """Named whole numbers, one per row."""
    return Given(
        name="facts",
        rows=tuple(whole(value) for value in values.values()),
        row_labels=tuple(values),
        column_labels=("value",),
    )


@dataclass(frozen=True, kw_only=True)
class Misconception:
    """A known mistake, and the numbers that it gives."""

    name: str
    """Unique in its exercise, such as `scale:model-width` or `forgot-exp`."""
    fault: str | None
    """The fault's id in the catalogue; None for a mistake that only people make."""
    says: str
    """One sentence to the learner, with the numbers."""
    values: Row
    """The answer that the mistake gives; its length may differ from that of the right answer."""

    def to_json(self) -> dict[str, Any]:
        """All fields, numbers as texts."""
        return {
            "name": self.name,
            "fault": self.fault,
            "says": self.says,
            "values": [number_text(number) for number in self.values],
        }


def slip(name: str, values: Sequence[Number], says: str) -> Misconception:
    """A mistake that only people make, so that the fault catalogue does not have it."""
    return Misconception(name=name, fault=None, says=says, values=tuple(values))


def fault(name: str, values: Sequence[Number], says: str) -> Misconception:
    """A mistake that is a known fault; `name` begins with the fault's id, as `scale:none`."""
    return Misconception(name=name, fault=name.partition(":")[0], says=says, values=tuple(values))


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A drawn exercise, before the check that its answers differ."""

    prompt: str
    """The question."""
    given: tuple[Given, ...]
    """The tables to answer it from."""
    asks: tuple[str, ...]
    """The name of each number that is asked for, in order."""
    answer: Row
    """The right numbers, exact."""
    misconceptions: tuple[Misconception, ...]
    """Known mistakes."""
    working: tuple[str, ...]
    """The way to the answer, one line per step."""
    worksheet: dict[str, Any] | None = field(default=None, hash=False)
    """The worksheet that the numbers come from; None if there is none."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of exercise; everything else about it is derived from this."""

    name: str
    """As in commands and addresses."""
    title: str
    """For a reader, as a heading."""
    summary: str
    """What is asked, for the list in `manyheads quiz exercises --help`."""
    stream: int
    """The PCG32 stream that it draws from; it never changes."""
    draw: Callable[[Draws], Draft | None]
    """One draw; None if it gives no exercise."""


@dataclass(frozen=True, kw_only=True)
class Exercise(Draft):
    """One exercise: what is given, what is asked, the answer, and the known mistakes."""

    kind: str
    """The name of its kind."""
    seed: int
    """The seed that it was drawn from."""
    title: str
    """The title of its kind."""

    @property
    def id(self) -> str:
        """`kind/seed`."""
        return f"{self.kind}/{self.seed}"

    def to_json(self, with_answer: bool = True) -> dict[str, Any]:
        """The stable form of `docs/exercises.md`; without the answer also without its working."""
        document: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "seed": self.seed,
            "title": self.title,
            "prompt": self.prompt,
            "given": [table.to_json() for table in self.given],
            "asks": list(self.asks),
        }
        if with_answer:
            document |= {
                "answer": [number_text(number) for number in self.answer],
                "misconceptions": [item.to_json() for item in self.misconceptions],
                "working": list(self.working),
                "worksheet": self.worksheet,
            }
        return document

    def to_text(self) -> str:
        """The stable form as one JSON document."""
        return json.dumps(self.to_json(), ensure_ascii=False)

    def question_text(self) -> str:
        """Title, question, given tables and what is asked, in 80 columns."""
        lines = [f"{self.title} ({self.id})", *wrapped(self.prompt, later=""), ""]
        for given in self.given:
            lines += [given.to_text(), ""]
        wanted = f"Type {len(self.asks)} numbers: {', '.join(self.asks)}."
        return "\n".join([*lines, *wrapped(wanted, later="")])

    def working_text(self) -> str:
        """The way to the answer, in 80 columns."""
        return "\n".join(line for step in self.working for line in wrapped(step, indent="  "))

    def answer_text(self) -> str:
        """The right answer, number by number: `weight of source 1 = 1/7`."""
        pairs = zip(self.asks, self.answer, strict=True)
        return ", ".join(f"{name} = {fraction_text(value)}" for name, value in pairs)
