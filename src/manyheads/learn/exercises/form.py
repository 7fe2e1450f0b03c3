"""What an exercise consists of, and its JSON form; nothing is drawn or marked here."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from manyheads.worksheets.arithmetic import Number, float_of, is_exact
from manyheads.worksheets.display import fraction_text
from manyheads.worksheets.numbers import exact_text

Numbers = tuple[Number, ...]


def number_text(number: Number) -> str:
    """Write a number for JSON: exact where that is known, else `~` and its nearest float64."""
    return exact_text(number) if is_exact(number) else f"~{float_of(number)!r}"


def shown(numbers: Sequence[Number]) -> str:
    """Write numbers for a reader: `1/2, ln(2), 0`."""
    return ", ".join(fraction_text(number) for number in numbers)


@dataclass(frozen=True, kw_only=True)
class Table:
    """One thing that is given: a named table of exact numbers."""

    name: str
    """As readers know it: `W_Q`, `scores`."""
    rows: tuple[tuple[Number, ...], ...]
    """One tuple a row."""
    row_labels: tuple[str, ...]
    """What each row stands for."""
    column_labels: tuple[str, ...]
    """What each column stands for."""

    def to_json(self) -> dict[str, Any]:
        """Name, rows as texts, and labels."""
        return {
            "name": self.name,
            "rows": [[number_text(number) for number in row] for row in self.rows],
            "row_labels": list(self.row_labels),
            "column_labels": list(self.column_labels),
        }


@dataclass(frozen=True, kw_only=True)
class Misconception:
    """A known way to go wrong, and the numbers that it gives."""

    name: str
    """Unique in its exercise, such as `scale:model-width` or `forgot-exp`."""
    fault: str | None
    """The fault's id in the catalogue; None for a slip that code does not make."""
    says: str
    """One sentence to the learner, with the numbers."""
    values: Numbers
    """What is typed by whoever goes wrong so; may be more or fewer numbers than asked."""

    def to_json(self) -> dict[str, Any]:
        """All fields, numbers as texts."""
        return {
            "name": self.name,
            "fault": self.fault,
            "says": self.says,
            "values": [number_text(number) for number in self.values],
        }


def slip(name: str, values: Sequence[Number], says: str) -> Misconception:
    """A misconception that no code makes, so that the catalogue has none of it."""
    return Misconception(name=name, fault=None, says=says, values=tuple(values))


def fault(name: str, values: Sequence[Number], says: str) -> Misconception:
    """A misconception that is a known fault; `name` begins with the fault's id, as `scale:none`."""
    return Misconception(name=name, fault=name.partition(":")[0], says=says, values=tuple(values))


@dataclass(frozen=True, kw_only=True)
class Draft:
    """An exercise as one draw gives it, before anybody has looked whether it is a good one."""

    prompt: str
    """The question."""
    given: tuple[Table, ...]
    """What it may be answered from."""
    asks: tuple[str, ...]
    """The names of the numbers wanted, in order."""
    answer: Numbers
    """The right numbers, exact."""
    misconceptions: tuple[Misconception, ...]
    """Known ways to go wrong."""
    working: tuple[str, ...]
    """The way to the answer, a line a step."""
    worksheet: dict[str, Any] | None = field(default=None, hash=False)
    """The worksheet file that the numbers come from; None where nothing is mixed."""


@dataclass(frozen=True, kw_only=True)
class Exercise(Draft):
    """One exercise: what is given, what is asked, the answer, and what goes wrong."""

    kind: str
    """Which kind, as in `KINDS`."""
    seed: int
    """What it was drawn from."""
    title: str
    """The kind, for a reader."""

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
