"""Marking: an answer is right, agrees with a known misconception, or is not a mistake we know."""

from dataclasses import dataclass
from typing import Any

from manyheads.core.errors import LearnError
from manyheads.learn.exercises.form import Exercise, Misconception, Numbers
from manyheads.learn.typed import LEAST_DIGITS, Typed, how_close, typed_numbers
from manyheads.worksheets.display import fraction_text

_AGREES = ("same", "rounded")


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What became of an answer."""

    is_right: bool
    """Whether every number is right."""
    is_judged: bool
    """False where it cannot be judged: unreadable, too few numbers or digits; try again."""
    misconceptions: tuple[Misconception, ...]
    """The known ways to go wrong that give just these numbers."""
    says: str
    """One line to the learner."""

    @property
    def misconception(self) -> Misconception | None:
        """The one that the answer agrees with; None where there is none, or more than one."""
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
        typed: the numbers asked, in order.
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
        says=_said(exercise, numbers, closeness, found),
    )


def _closeness(numbers: tuple[Typed, ...], values: Numbers) -> tuple[str, ...]:
    """How each number stands to its value; nothing where their counts differ."""
    if len(numbers) != len(values):
        return ()
    pairs = zip(numbers, values, strict=True)
    return tuple(how_close(number, value) for number, value in pairs)


def _agrees(closeness: tuple[str, ...]) -> bool:
    return bool(closeness) and all(how in _AGREES for how in closeness)


def _said(
    exercise: Exercise,
    numbers: tuple[Typed, ...],
    closeness: tuple[str, ...],
    found: tuple[Misconception, ...],
) -> str:
    if found:
        return "Not right. " + " Or: ".join(item.says for item in found)
    if not closeness:
        count, wanted = len(numbers), len(exercise.asks)
        return (
            f"{count} number{'s' if count > 1 else ''} typed, {wanted} wanted: "
            f"{', '.join(exercise.asks)}."
        )
    if "other" not in closeness:
        coarse = numbers[closeness.index("coarse")].text
        return f"{coarse} has too few digits to tell: give {LEAST_DIGITS} decimals, or a fraction."
    right = sum(how in _AGREES for how in closeness)
    return f"Not right, and not a mistake we know: {_counted(right, len(closeness))} right."


def _counted(right: int, count: int) -> str:
    return f"{right or 'none'} of {count} {'is' if right <= 1 else 'are'}"


def answer_text(exercise: Exercise) -> str:
    """The right answer, number by number: `weight of source 1 = 1/7`."""
    pairs = zip(exercise.asks, exercise.answer, strict=True)
    return ", ".join(f"{name} = {fraction_text(value)}" for name, value in pairs)
