"""What was answered, kept in the learner's own file, one record an answer."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from manyheads.learn.exercises.form import Exercise
from manyheads.learn.exercises.marking import Mark, answer_text, mark
from manyheads.learn.own_files import add_record

FILE = "exercises.jsonl"


class Marked(NamedTuple):
    """One exercise with what was typed for it."""

    exercise: Exercise
    """The exercise."""
    typed: str | None
    """What was typed; None where nothing was."""
    mark: Mark
    """What became of it."""

    def to_json(self) -> dict[str, Any]:
        """Id, what was typed, the mark, the right answer."""
        return {
            "exercise": self.exercise.id,
            "typed": self.typed,
            **self.mark.to_json(),
            "answer": answer_text(self.exercise),
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
    """Add judged answers to the learner's file; others can still be tried again.

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
