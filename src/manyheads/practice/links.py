"""The recall card of a mistake."""

from functools import cache

from manyheads.learn.cards.deck import rows_of, topics
from manyheads.practice.task import Task


@cache
def _cards() -> dict[str, str]:
    """For each fault whose text a card quotes, the first such card."""
    found: dict[str, str] = {}
    for topic in topics():
        for row in rows_of(topic):
            for part in f"{row['front']} {row['back']}".split("<<")[1:]:
                found.setdefault(part.split(".")[0], row["id"])
    return found


def card_of(task: Task, fault: str | None) -> str:
    """The id of the card that explains a mistake; that of the task where no card names it."""
    return _cards().get(fault or "", task.card)
