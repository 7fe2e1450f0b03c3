"""Marking: an answer is right, agrees with a known mistake, or is wrong in another way.

Results are kept in the learner's own file, one record per answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from manyheads.core.errors import LearnError
from manyheads.learn.exercises.form import Exercise, Misconception
from manyheads.learn.own_files import add_record
from manyheads.learn.typed import LEAST_DIGITS, Typed, how_close, typed_numbers
from manyheads.worksheets.sheet import Row

FILE = "exercises.jsonl"
_AGREES = ("same", "rounded")


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The mark of an answer."""

    is_right: bool
    """Whether every number is right."""
    is_judged: bool
    """False if it cannot be marked: unreadable, or too few numbers or digits."""
    misconceptions: tuple[Misconception, ...]
    """The known mistakes that give exactly these numbers."""
    says: str
    """One line to the learner."""

    @property
    def misconception(self) -> Misconception | None:
        """The mistake that the answer agrees with; None if there is none, or more than one."""
        return self.misconceptions[0] if len(self.misconceptions) == 1 else None

    def to_json(self) -> dict[str, Any]:
        """All fields; misconceptions by name and fault."""
        return {
            "right": self.is_right,
            "judged": self.is_judged,
            "misconceptions": [
                {"name": item.name, "fault": item.fault} for item in self.misconceptions
            ],
            "says": self.says,
        }


def mark(exercise: Exercise, typed: str) -> Mark:
    """Mark what a learner typed.

    A decimal with at least three significant digits or decimals counts as any number that rounds
    to it; everything else must be exact. A misconception is named only where every number agrees.

    Args:
        exercise: the exercise.
        typed: the numbers asked for, in order.
    """
    try:
        numbers = typed_numbers(typed)
    except LearnError as error:
        return Mark(is_right=False, is_judged=False, misconceptions=(), says=str(error))
    closeness = _closeness(numbers, exercise.answer)
    if _agrees(closeness):
        return Mark(is_right=True, is_judged=True, misconceptions=(), says="Right.")
    found = tuple(m for m in exercise.misconceptions if _agrees(_closeness(numbers, m.values)))
    return Mark(
        is_right=False,
        is_judged=bool(found) or "other" in closeness,
        misconceptions=found,
        says=_message(exercise, numbers, closeness, found),
    )


def _closeness(numbers: tuple[Typed, ...], values: Row) -> tuple[str, ...]:
    """How close each number is to its value; empty where their counts differ."""
    if len(numbers) != len(values):
        return ()
    pairs = zip(numbers, values, strict=True)
    return tuple(how_close(number, value) for number, value in pairs)


def _agrees(closeness: tuple[str, ...]) -> bool:
    return bool(closeness) and all(how in _AGREES for how in closeness)


def _message(
    exercise: Exercise,
    numbers: tuple[Typed, ...],
    closeness: tuple[str, ...],
    found: tuple[Misconception, ...],
) -> str:
    if found:
        return "Not right. " + " Or: ".join(item.says for item in found)
    if not closeness:
        count, asks = len(numbers), exercise.asks
        return (
            f"You typed {count} number{'s' if count > 1 else ''}; type {len(asks)}: "
            f"{', '.join(asks)}."
        )
    if "other" not in closeness:
        coarse = numbers[closeness.index("coarse")].text
        return f"{coarse} has too few digits: type {LEAST_DIGITS} decimals or a fraction."
    right = sum(how in _AGREES for how in closeness)
    verb = "is" if right == 1 else "are"
    return (
        f"Not right: {right} of {len(closeness)} numbers {verb} right, and no known mistake gives "
        "these numbers."
    )


class Marked(NamedTuple):
    """One exercise with what was typed for it."""

    exercise: Exercise
    """The exercise."""
    typed: str | None
    """What was typed; None for no answer."""
    mark: Mark
    """The mark of the answer."""

    def to_json(self) -> dict[str, Any]:
        """Id, what was typed, the mark, the right answer."""
        return {
            "exercise": self.exercise.id,
            "typed": self.typed,
            **self.mark.to_json(),
            "answer": self.exercise.answer_text(),
        }


def marked(exercise: Exercise, typed: str | None) -> Marked:
    """Mark an answer, or the lack of one."""
    if typed is None:
        says = "Not answered."
        return Marked(
            exercise, None, Mark(is_right=False, is_judged=False, misconceptions=(), says=says)
        )
    return Marked(exercise, typed, mark(exercise, typed))


def keep(folder: Path, results: Sequence[Marked]) -> None:
    """Add marked answers to the learner's file; other answers are not saved.

    Raises:
        LearnError: it cannot be written.
    """
    for result in results:
        if result.mark.is_judged:
            add_record(folder / FILE, record_of(result, datetime.now(UTC)))


def record_of(result: Marked, when: datetime) -> dict[str, Any]:
    """One line of the file."""
    return {
        "when": when.isoformat(timespec="milliseconds"),
        "exercise": result.exercise.id,
        "typed": result.typed,
        "right": result.mark.is_right,
        "misconceptions": [item.name for item in result.mark.misconceptions],
    }
