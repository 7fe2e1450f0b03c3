"""Where a learner stands with each question, by the latest attempt at it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyheads.learn.attempts import QUIZ_FILE, flags, latest
from manyheads.learn.quiz.question import outlines


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
    """For each number, whether it was right; None where it was left out."""
    covered: tuple[bool | None, ...]
    """For each point, whether the answer had it; None where that was not judged."""

    @property
    def says(self) -> str:
        """Numbers right and points covered, in a few words."""
        if not self.is_asked:
            return "not asked yet"
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
