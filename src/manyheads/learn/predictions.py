"""Predictions and outcomes: what a learner expected before a number was computed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from manyheads.core.errors import LearnError
from manyheads.learn.attempts import checked_text, written_now
from manyheads.learn.own_files import add_record, read_records
from manyheads.learn.sentences import value_text
from manyheads.learn.typed import is_right, is_same
from manyheads.worksheets.arithmetic import Number, add, is_positive, negative

FILE = "predictions.jsonl"
Direction = Literal["higher", "lower", "same"]
_WORDS: dict[str, Direction] = {
    "higher": "higher",
    "h": "higher",
    "lower": "lower",
    "l": "lower",
    "same": "same",
    "s": "same",
}


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One prediction and what happened."""

    where: str
    """Such as "lab:part-3" or "worksheet:two-routes"."""
    try_name: str
    """Name of the experiment."""
    prediction: str
    """As it was typed."""
    outcome: str
    """The computed result."""
    right: bool | None
    """Whether the prediction was right; None if unknown."""
    when: str = field(default_factory=written_now)
    """When it was made, in UTC."""

    def to_json(self) -> dict[str, Any]:
        """The record: when, where, try, prediction, outcome, right."""
        return {
            "when": self.when,
            "where": self.where,
            "try": self.try_name,
            "prediction": self.prediction,
            "outcome": self.outcome,
            "right": self.right,
        }


class Tally(NamedTuple):
    """How often a learner was right."""

    right: int
    """Predictions that were right."""
    judged: int
    """Predictions that are known to be right or wrong."""
    made: int
    """All predictions."""


def keep_prediction(folder: Path, prediction: Prediction) -> None:
    """Add a prediction to the log, on disk when this returns.

    Raises:
        LearnError: the file cannot be written.
    """
    add_record(folder / FILE, prediction.to_json())


def read_predictions(folder: Path) -> tuple[Prediction, ...]:
    """Read the log, oldest first.

    Raises:
        LearnError: the file is damaged; nothing is changed.
    """
    path = folder / FILE
    records = read_records(path).records
    return tuple(_prediction(path, n, record) for n, record in enumerate(records, start=1))


def tally_of(predictions: Sequence[Prediction]) -> Tally:
    """Count the predictions that were right."""
    judged = [one.right for one in predictions if one.right is not None]
    return Tally(right=sum(judged), judged=len(judged), made=len(predictions))


def direction_of(before: Number, after: Number) -> Direction:
    """The direction in which a number changed."""
    if is_same(before, after):
        return "same"
    return "higher" if is_positive(add(after, negative(before))) else "lower"


class Judged(NamedTuple):
    """The mark of a prediction."""

    right: bool
    """Whether the prediction was right."""
    says: str
    """One sentence for the learner."""


def judge(prediction: str, before: Number, after: Number) -> Judged:
    """Compare a prediction with the computed number.

    Args:
        prediction: a number, or "higher", "lower" or "same" (or its first letter).
        before: the number before the change.
        after: the number after the change.

    Raises:
        LearnError: the text is none of these, or has too few digits.
    """
    text = checked_text(prediction)
    word = _WORDS.get(text.lower())
    came_true = _is_number(text, after) if word is None else word == direction_of(before, after)
    verdict = "right" if came_true else "not right"
    return Judged(
        came_true,
        f"It was {value_text(before)} and is {value_text(after)} ({direction_of(before, after)}): "
        f"your prediction was {verdict}.",
    )


def _is_number(text: str, after: Number) -> bool:
    try:
        return is_right(text, after)
    except LearnError as error:
        raise LearnError(f"{error}; or higher, lower or same") from error


def _prediction(path: Path, number: int, record: dict[str, Any]) -> Prediction:
    names = ("where", "try", "prediction", "when")
    texts = [*(record.get(name) for name in names), record.get("outcome", "")]
    right = record.get("right")
    if not all(isinstance(text, str) for text in texts) or not isinstance(right, bool | None):
        raise LearnError(
            f"file ({path}) is damaged in record {number} (not a prediction): correct or delete "
            "that line; nothing was changed"
        )
    where, name, prediction, when, outcome = map(str, texts)
    return Prediction(
        where=where, try_name=name, prediction=prediction, outcome=outcome, right=right, when=when
    )
