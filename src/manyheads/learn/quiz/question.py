"""Question: what is asked, its numbers, the full answer and the rubric, read from a data file."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from manyheads.core.errors import LearnError
from manyheads.learn.quiz.computed import computed_for
from manyheads.learn.said import Said, number_named, say
from manyheads.worksheets.arithmetic import Number, float_of, is_exact
from manyheads.worksheets.numbers import exact_text

_DATA = Path(__file__).parent / "questions.toml"


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One number that is asked for."""

    prompt: Said
    """The question."""
    quantity: str
    """The name of the number."""
    value: Number
    """What the engine says, exact where it is known exactly."""

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
    prompt: Said
    """What is asked in words."""
    numbers: tuple[Ask, ...]
    """What is asked in numbers, to be answered before the full answer is seen."""
    answer: Said
    """The full answer; an empty line begins a paragraph."""
    rubric: tuple[Said, ...]
    """What a complete answer says, a point a sentence."""
    frame: str
    """The frame of the page's story that shows it, such as "full-input"."""
    worksheet: str | None
    """The worksheet whose given numbers one has to look at; None where the prompts say enough."""

    def to_json(self) -> dict[str, Any]:
        """Everything above by the same names; sentences as in `Said.to_json`."""
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
        prompt=say(flowed(entry["prompt"]), computed),
        numbers=tuple(_ask(part, computed) for part in entry["number"]),
        answer=say(flowed(entry["answer"]), computed),
        rubric=tuple(say(point, computed) for point in entry["rubric"]),
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
        prompt=say(part["prompt"], computed),
        quantity=part["value"],
        value=number_named(part["value"], computed),
    )


@cache
def _entries() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = tomllib.loads(_DATA.read_text(encoding="utf-8"))["question"]
    return entries
