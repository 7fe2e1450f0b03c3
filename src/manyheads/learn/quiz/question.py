"""Questions: what each one asks, its answer and rubric, how it is marked, and its results."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from manyheads.core.errors import LearnError
from manyheads.learn.attempts import QUIZ_FILE, flags, latest
from manyheads.learn.quiz.computed import computed_for
from manyheads.learn.sentences import Sentence, filled, number_named, value_text
from manyheads.learn.typed import how_close, typed_number
from manyheads.worksheets.arithmetic import Number, float_of, is_exact
from manyheads.worksheets.numbers import exact_text

_DATA = Path(__file__).parent / "questions.toml"


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One number that is asked for."""

    prompt: Sentence
    """The question."""
    quantity: str
    """The name of the number."""
    value: Number
    """The value from the engine, exact where it is known exactly."""

    def to_json(self) -> dict[str, Any]:
        """Prompt, quantity, value, and its exact text or null."""
        return {
            "prompt": self.prompt.to_json(),
            "quantity": self.quantity,
            "value": float_of(self.value),
            "exact": exact_text(self.value) if is_exact(self.value) else None,
        }


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question of the quiz."""

    id: str
    """Short name, as in records and addresses."""
    number: int
    """Its place in the quiz, from 1."""
    title: str
    """One line."""
    prompt: Sentence
    """What is asked in words."""
    numbers: tuple[Ask, ...]
    """What is asked in numbers, to be answered before the full answer is seen."""
    answer: Sentence
    """The full answer; an empty line begins a paragraph."""
    rubric: tuple[Sentence, ...]
    """The points of a complete answer, one sentence each."""
    frame: str
    """The frame of the page's story that shows it, such as "full-input"."""
    worksheet: str | None
    """The worksheet whose given numbers the question needs; None if the prompts have them."""

    def to_json(self) -> dict[str, Any]:
        """Everything above by the same names; sentences as in `Sentence.to_json`."""
        return {
            "id": self.id,
            "number": self.number,
            "title": self.title,
            "prompt": self.prompt.to_json(),
            "numbers": [ask.to_json() for ask in self.numbers],
            "answer": self.answer.to_json(),
            "rubric": [point.to_json() for point in self.rubric],
            "frame": self.frame,
            "worksheet": self.worksheet,
        }


def question_ids() -> tuple[str, ...]:
    """The ids of the questions, in order."""
    return tuple(entry["id"] for entry in _entries())


class Outline(NamedTuple):
    """What is known of a question without computing anything."""

    id: str
    """Its id."""
    title: str
    """One line."""
    num_numbers: int
    """How many numbers it asks for."""
    num_points: int
    """How many points its rubric has."""


def outlines() -> tuple[Outline, ...]:
    """One outline a question, in order."""
    return tuple(
        Outline(entry["id"], entry["title"], len(entry["number"]), len(entry["rubric"]))
        for entry in _entries()
    )


@cache
def question(number: int) -> Question:
    """One question by its number, with its numbers computed.

    Raises:
        LearnError: no such question.
    """
    entries = _entries()
    if not 1 <= number <= len(entries):
        raise LearnError(f"question ({number}) must be 1 to {len(entries)}: use one of them")
    entry = entries[number - 1]
    computed = computed_for(entry["id"])
    return Question(
        id=entry["id"],
        number=number,
        title=entry["title"],
        prompt=filled(flowed(entry["prompt"]), computed),
        numbers=tuple(_ask(part, computed) for part in entry["number"]),
        answer=filled(flowed(entry["answer"]), computed),
        rubric=tuple(filled(point, computed) for point in entry["rubric"]),
        frame=entry["frame"],
        worksheet=entry.get("worksheet"),
    )


def questions() -> tuple[Question, ...]:
    """All questions in order."""
    return tuple(question(number) for number in range(1, len(_entries()) + 1))


def quiz_json() -> str:
    """All questions as one JSON document: `{"questions": [...]}`."""
    document = {"questions": [one.to_json() for one in questions()]}
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def flowed(text: str) -> str:
    """Join the lines of a text; an empty line stays, as the beginning of a paragraph."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _ask(part: dict[str, str], computed: Mapping[str, Number]) -> Ask:
    return Ask(
        prompt=filled(part["prompt"], computed),
        quantity=part["value"],
        value=number_named(part["value"], computed),
    )


@cache
def _entries() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = tomllib.loads(_DATA.read_text(encoding="utf-8"))["question"]
    return entries


class NumberMark(NamedTuple):
    """A marked number."""

    is_right: bool
    """Whether it counts."""
    says: str
    """One sentence for the learner, with the right number."""


def mark_numeric(typed: str, value: Number) -> NumberMark:
    """Mark a typed number: equal, or the value rounded to the digits typed, three at least.

    Args:
        typed: such as "26/7", "sqrt(2)/2", "37.1%" or "3.71".
        value: the value from the engine.

    Raises:
        LearnError: the text is empty or is not a number.
    """
    close = how_close(typed_number(typed), value)
    begins = {
        "same": "Right:",
        "rounded": "Right, rounded:",
        "coarse": "Close, but too few digits to tell: it is",
        "other": "Not right: it is",
    }
    return NumberMark(close in ("same", "rounded"), f"{begins[close]} {value_text(value)}.")


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The latest attempt at one question."""

    number: int
    """The question's place, from 1."""
    id: str
    """Its id."""
    title: str
    """One line."""
    is_asked: bool
    """Whether there was an attempt."""
    right: tuple[bool | None, ...]
    """For each number, whether it was right; None if it was skipped."""
    covered: tuple[bool | None, ...]
    """For each point, whether the answer had it; None if not marked."""

    @property
    def says(self) -> str:
        """Numbers right and points covered, in a few words."""
        if not self.is_asked:
            return "not answered yet"
        right, covered = self.right.count(True), self.covered.count(True)
        return f"{right}/{len(self.right)} numbers, {covered}/{len(self.covered)} points"

    def to_json(self) -> dict[str, Any]:
        """All fields by the same names."""
        return {
            "number": self.number,
            "id": self.id,
            "title": self.title,
            "is_asked": self.is_asked,
            "right": list(self.right),
            "covered": list(self.covered),
        }


def standings(folder: Path) -> tuple[Standing, ...]:
    """One standing a question, in order; nothing is computed for them.

    Raises:
        LearnError: the file of attempts is damaged.
    """
    found = latest(folder, QUIZ_FILE, "question")
    return tuple(
        Standing(
            number=number,
            id=outline.id,
            title=outline.title,
            is_asked=(outline.id,) in found,
            right=flags(found.get((outline.id,)), "right", outline.num_numbers),
            covered=flags(found.get((outline.id,)), "covered", outline.num_points),
        )
        for number, outline in enumerate(outlines(), start=1)
    )
