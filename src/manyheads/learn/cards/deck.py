"""The recall cards: questions and answers from `data/`, with every number computed."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from manyheads.core.errors import LearnError
from manyheads.learn.cards.card_numbers import CardNumbers
from manyheads.learn.sentences import Sentence

_DATA = Path(__file__).parent / "data"
_TOPICS = (
    *("shapes", "heads", "output", "scale", "weights", "masks", "causality"),
    *("layouts", "cost", "grouped", "cache", "positions", "faults"),
)
"""In the order in which new cards come; each is a file in `data/`."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """A question and its answer."""

    id: str
    """Never changes, so that reviews and an imported deck still refer to this card."""
    topic: str
    """One of `topics()`."""
    front: Sentence
    """The question."""
    back: Sentence
    """The answer, and why."""


def topics() -> tuple[str, ...]:
    """The topics, in the order of the deck."""
    return _TOPICS


@cache
def deck() -> tuple[Card, ...]:
    """All cards in their order, with their numbers computed."""
    return tuple(_card(topic, row) for topic in _TOPICS for row in rows_of(topic))


def cards_of(topic: str | None) -> tuple[Card, ...]:
    """The cards of a topic; None takes all.

    Raises:
        LearnError: no such topic.
    """
    if topic is not None and topic not in _TOPICS:
        raise LearnError(f"topic ({topic}) does not exist: use one of {', '.join(_TOPICS)}")
    return tuple(card for card in deck() if topic in (None, card.topic))


def rows_of(topic: str) -> list[dict[str, Any]]:
    """The cards of a topic as they are written, before any number is filled in."""
    text = (_DATA / f"{topic}.toml").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = tomllib.loads(text)["cards"]
    return rows


def deck_json(cards: Iterable[Card] | None = None) -> list[dict[str, Any]]:
    """The deck for a page: id, topic, front and back of each card, as `Sentence.to_json`.

    Args:
        cards: some of the deck; None takes all.
    """
    return [
        {
            "id": card.id,
            "topic": card.topic,
            "front": card.front.to_json(),
            "back": card.back.to_json(),
        }
        for card in (deck() if cards is None else cards)
    ]


def _card(topic: str, row: dict[str, Any]) -> Card:
    numbers = CardNumbers(row)
    return Card(
        id=row["id"],
        topic=topic,
        front=numbers.fill(row["front"]),
        back=numbers.fill(row["back"]),
    )
