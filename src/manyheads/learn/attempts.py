"""Attempts at a question or a topic, saved as records.

A record is written when an answer is complete, and again when it is marked. A later record of the
same attempt replaces the earlier one, so lines are only appended to the file.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from manyheads.core.errors import LearnError
from manyheads.learn.own_files import add_record, check_can_be_written, read_records

QUIZ_FILE, EXPLAIN_FILE = "quiz.jsonl", "explain.jsonl"
LONGEST_TEXT = 10_000
"""Characters of one answer, as on the page."""


def written_now() -> str:
    """The time in UTC, to a thousandth of a second."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def checked_text(text: str) -> str:
    """Return an answer without control characters and outer spaces.

    Raises:
        LearnError: it is too long to keep.
    """
    if len(text) > LONGEST_TEXT:
        raise LearnError(
            f"answer ({len(text)} characters) must have at most {LONGEST_TEXT}: shorten it"
        )
    return "".join(c if ord(c) >= 32 and not 127 <= ord(c) < 160 else " " for c in text).strip()


@dataclass(kw_only=True)
class Attempt:
    """The answers so far; `save` writes them if they have changed."""

    folder: Path
    """The folder of the file."""
    when: str = field(default_factory=written_now)
    """Start time; with the question, or with topic and half, it identifies the attempt."""
    kept: dict[str, Any] | None = None
    """The record that was last written."""

    file_name = ""

    def to_json(self) -> dict[str, Any]:
        """The record."""
        raise NotImplementedError

    @property
    def has_answer(self) -> bool:
        """Whether anything was answered."""
        raise NotImplementedError

    def save(self) -> None:
        """Save the answers; they are on disk when this returns.

        Raises:
            LearnError: the file cannot be written.
        """
        record = self.to_json()
        if self.has_answer and record != self.kept:
            add_record(self.folder / self.file_name, record)
            self.kept = record


@dataclass(kw_only=True)
class QuizAttempt(Attempt):
    """An attempt at one question of the quiz."""

    question: str
    """Its id."""
    typed: list[str] = field(default_factory=list)
    """The numbers as typed; "" for a skipped one."""
    right: list[bool | None] = field(default_factory=list)
    """Whether each of them was right; None for a skipped one."""
    answer: str = ""
    """The answer in words."""
    covered: list[bool | None] = field(default_factory=list)
    """Whether the answer had each point of the rubric; None if not marked."""

    file_name = QUIZ_FILE

    @property
    def has_answer(self) -> bool:
        """Whether anything was answered."""
        return bool(self.answer or any(self.typed) or any(c is not None for c in self.covered))

    def to_json(self) -> dict[str, Any]:
        """The record."""
        return {
            "when": self.when,
            "question": self.question,
            "typed": list(self.typed),
            "right": list(self.right),
            "answer": self.answer,
            "covered": list(self.covered),
        }


@dataclass(kw_only=True)
class HalfAttempt(Attempt):
    """An attempt at one half of a topic: its explanation, or its application."""

    topic: str
    """Its id."""
    half: str
    """"explain" or "apply"."""
    text: str = ""
    """The answer in words."""
    covered: list[bool | None] = field(default_factory=list)
    """Whether each point is covered."""
    answers: list[str | None] = field(default_factory=list)
    """The latest answer to each point's follow-up question."""

    file_name = EXPLAIN_FILE

    @property
    def has_answer(self) -> bool:
        """Whether anything was answered."""
        return bool(self.text or any(c is not None for c in self.covered) or any(self.answers))

    def to_json(self) -> dict[str, Any]:
        """The record."""
        return {
            "when": self.when,
            "topic": self.topic,
            "half": self.half,
            "text": self.text,
            "covered": list(self.covered),
            "answers": list(self.answers),
        }


def check_file(folder: Path, name: str) -> None:
    """Find out before anybody answers whether answers can be read and kept there.

    Raises:
        LearnError: the file is damaged, or it or the folder cannot be written; nothing is changed.
    """
    read_records(folder / name)
    check_can_be_written(folder / name)


def latest(folder: Path, name: str, *keys: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """The last record of each question, or of each topic and half.

    Args:
        folder: the learner's.
        name: the file.
        *keys: the fields that tell them apart; a record without them is none of ours.

    Raises:
        LearnError: the file is damaged.
    """
    found = {}
    for record in read_records(folder / name).records:
        values = [record.get(key) for key in keys]
        if all(isinstance(value, str) for value in values):
            found[tuple(map(str, values))] = record
    return found


def flags(record: dict[str, Any] | None, name: str, count: int) -> tuple[bool | None, ...]:
    """A list of true, false and null in a record, made as long as it should be."""
    listed = record.get(name) if record else None
    values: Iterable[object] = listed if isinstance(listed, list) else ()
    known = [value if isinstance(value, bool) else None for value in values][:count]
    return (*known, *(None for _ in range(count - len(known))))
