"""Explain it back: an explanation and an application, their points, and one follow-up at a time.

The learner marks each point as covered or missing; what is asked next follows from that alone.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from manyheads.core.errors import LearnError
from manyheads.core.text import quoted
from manyheads.learn.quiz.computed import computed_for
from manyheads.learn.quiz.question import flowed
from manyheads.learn.sentences import Sentence, filled
from manyheads.worksheets.arithmetic import Number
from manyheads.worksheets.numbers import Literal as Plain

_DATA = Path(__file__).parent / "quiz" / "topics.toml"
Half = Literal["explain", "apply"]
"""Which of the two a point belongs to."""
HALVES: tuple[Half, ...] = get_args(Half)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of a complete explanation or application."""

    says: Sentence
    """The point, in one sentence."""
    follow_up: Sentence
    """The question for a learner who left it out."""
    look_for: Sentence
    """The content of a good answer to that question."""
    words: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What rules look for in a text: a name, and beginnings of words, one of which is enough."""

    def to_json(self) -> dict[str, Any]:
        """All fields by the same names."""
        return {
            "says": self.says.to_json(),
            "follow_up": self.follow_up.to_json(),
            "look_for": self.look_for.to_json(),
            "words": [[label, list(stems)] for label, stems in self.words],
        }


@dataclass(frozen=True, kw_only=True)
class Topic:
    """Something to explain."""

    id: str
    """Short name, as in records and addresses."""
    title: str
    """One line."""
    explain_prompt: Sentence
    """Asks for an explanation."""
    apply_prompt: Sentence
    """Asks for an application to a case with numbers."""
    explain_points: tuple[Point, ...]
    """What the explanation should say."""
    apply_points: tuple[Point, ...]
    """What the application should say."""

    def points(self, half: Half) -> tuple[Point, ...]:
        """The points of one half."""
        return self.explain_points if half == "explain" else self.apply_points

    def prompt(self, half: Half) -> Sentence:
        """The prompt of one half."""
        return self.explain_prompt if half == "explain" else self.apply_prompt

    def to_json(self) -> dict[str, Any]:
        """`id`, `title`, and for each half its `prompt` and `points`."""
        halves: dict[str, Any] = {
            half: {
                "prompt": self.prompt(half).to_json(),
                "points": [point.to_json() for point in self.points(half)],
            }
            for half in HALVES
        }
        return {"id": self.id, "title": self.title, **halves}


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The first point that is missing, with the one question that is asked about it."""

    half: Half
    """Which half it belongs to."""
    index: int
    """Its place there, from 0."""
    point: Point
    """The point."""


Marks = Mapping[Half, Sequence[bool | None]]
"""For each half, whether each point was covered; None if not marked."""


def first_gap(topic: Topic, marks: Marks) -> Gap | None:
    """Find the first point that was marked as missing, explanation before application.

    Args:
        topic: what was explained.
        marks: what the learner marked; a half that is absent, or shorter, is not marked.

    Returns:
        The gap, or None where nothing was marked as missing.
    """
    for half in HALVES:
        marked = marks.get(half, ())
        for index, point in enumerate(topic.points(half)):
            if index < len(marked) and marked[index] is False:
                return Gap(half=half, index=index, point=point)
    return None


def topic_ids() -> tuple[str, ...]:
    """The ids of the topics, in order."""
    return tuple(entry["id"] for entry in _entries())


def title_of(name: str) -> str:
    """The title of a topic; nothing is computed for it."""
    return next(str(entry["title"]) for entry in _entries() if entry["id"] == name)


def num_points(name: str, half: Half) -> int:
    """How many points one half of a topic has; nothing is computed for it."""
    return next(len(entry[half]) for entry in _entries() if entry["id"] == name)


@cache
def topic(name: str) -> Topic:
    """One topic by its id.

    Raises:
        LearnError: no such topic.
    """
    for entry in _entries():
        if entry["id"] == name:
            return _topic(entry)
    shown = quoted(Plain(name))
    raise LearnError(f"topic ({shown}) does not exist: use {', '.join(topic_ids())}")


def topics() -> tuple[Topic, ...]:
    """All topics in order."""
    return tuple(topic(name) for name in topic_ids())


def _topic(entry: dict[str, Any]) -> Topic:
    computed: dict[str, Number] = {}
    for name in entry.get("numbers", ()):
        computed |= computed_for(name)
    return Topic(
        id=entry["id"],
        title=entry["title"],
        explain_prompt=filled(flowed(entry["explain_prompt"]), computed),
        apply_prompt=filled(flowed(entry["apply_prompt"]), computed),
        explain_points=tuple(_point(part, computed) for part in entry["explain"]),
        apply_points=tuple(_point(part, computed) for part in entry["apply"]),
    )


def _point(part: dict[str, Any], computed: Mapping[str, Number]) -> Point:
    words: dict[str, str] = part.get("words", {})
    return Point(
        words=tuple((label, tuple(stems.split("|"))) for label, stems in words.items()),
        says=filled(part["point"], computed),
        follow_up=filled(part["follow_up"], computed),
        look_for=filled(part["look_for"], computed),
    )


@cache
def _entries() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = tomllib.loads(_DATA.read_text(encoding="utf-8"))["topic"]
    return entries
