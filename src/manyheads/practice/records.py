"""The learner's progress: one record for each verdict, hint, solution and reset.

The file only grows. A reset is a record too; what was solved before it does not count.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from manyheads.learn.attempts import written_now
from manyheads.learn.own_files import add_record, data_folder, read_records
from manyheads.practice.report import PracticeReport

FILE_NAME = "practice.jsonl"
"""In the learner's folder."""
Event = Literal["verdict", "hint", "solution", "reset"]
_AGAIN = 1


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a learner has done on one task since its last reset."""

    solved: bool = False
    """Whether an answer was right."""
    attempts: int = 0
    """Number of verdicts."""
    hints: int = 0
    """Number of hints that were shown."""
    saw_solution: bool = False
    """Whether the solution was shown."""


def add_event(
    folder: Path,
    event: Event,
    task: str | None,
    **more: Any,  # noqa: ANN401 - JSON values
) -> None:
    """Add one record to the learner's file; it is on disk when this returns.

    Args:
        folder: the learner's.
        event: what happened.
        task: the task; None for a reset of all.
        **more: what else is known, as JSON values.

    Raises:
        LearnError: the file cannot be written.
    """
    record = {"when": written_now(), "event": event, "task": task, **more}
    add_record(folder / FILE_NAME, record)


def record_verdict(report: PracticeReport, seed: int | None, data: Path | None = None) -> None:
    """Add a verdict to the records; the card of a wrong answer comes back, once a day.

    Raises:
        LearnError: the file cannot be written.
    """
    folder = data_folder(data)
    fault = report.findings[0].fault if report.findings else None
    card = report.card if not report.solved else ""
    is_new = bool(card) and not _was_sent(folder, card)
    add_event(
        folder, "verdict", report.task, solved=report.solved, seed=seed, fault=fault, card=card
    )
    if is_new:
        from manyheads.learn.cards.reviews import add_review, new_review  # loads the deck

        add_review(folder, new_review(card, _AGAIN, datetime.now(UTC)))


def _was_sent(folder: Path, card: str) -> bool:
    """Whether a card came back today."""
    today = written_now()[:10]
    records = read_records(folder / FILE_NAME).records
    return any(r.get("card") == card and str(r.get("when"))[:10] == today for r in records)


def progress(folder: Path) -> dict[str, Progress]:
    """What was done on each task, by name; tasks without records are missing.

    Raises:
        LearnError: the file is damaged.
    """
    found: dict[str, Progress] = {}
    for record in read_records(folder / FILE_NAME).records:
        name = record.get("task")
        if record.get("event") == "reset":
            for gone in [name] if isinstance(name, str) else list(found):
                found.pop(gone, None)
        elif isinstance(name, str):
            found[name] = _with_record(found.get(name, Progress()), record)
    return found


def _with_record(before: Progress, record: dict[str, Any]) -> Progress:
    event = record.get("event")
    return Progress(
        solved=before.solved or record.get("solved") is True,
        attempts=before.attempts + (event == "verdict"),
        hints=before.hints + (event == "hint"),
        saw_solution=before.saw_solution or event == "solution",
    )


def next_task(names: Iterable[str], known: dict[str, Progress]) -> str | None:
    """The first task of the ladder that is not solved."""
    return next((n for n in names if not known.get(n, Progress()).solved), None)
