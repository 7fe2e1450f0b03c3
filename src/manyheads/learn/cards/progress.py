"""Where every card stands, worked out from the reviews each time; nothing of it is stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from manyheads.core.errors import LearnError
from manyheads.learn.cards.deck import Card
from manyheads.learn.cards.reviews import Review
from manyheads.learn.cards.schedule import AHEAD, CardState, after_review
from manyheads.learn.cards.trusted import trusted_times

_LAST_YEAR = 9000
"""Dates end with the year 9999; a clock beyond this is not worth following."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Everything that the reviews say."""

    states: dict[str, CardState]
    """By card id; new cards are absent. Cards that the deck lacks are here too."""
    begun_today: int
    """Cards whose first review was made on this day of UTC."""
    num_future: int
    """Reviews dated more than a day after the present."""


def replay(reviews: Sequence[Review], now: datetime) -> Progress:
    """Work out where every card stands.

    Args:
        reviews: in the order of the file.
        now: by the present clock.

    Raises:
        LearnError: the clock is beyond all sense.
    """
    if now.year > _LAST_YEAR:
        raise LearnError(f"clock ({now:%Y-%m-%d}) cannot be right: set it; nothing is lost")
    times, num_future = trusted_times([review.when for review in reviews], now)
    states: dict[str, CardState] = {}
    begun: dict[str, datetime] = {}
    for review, time in zip(reviews, times, strict=True):
        states[review.card] = after_review(states.get(review.card), review.rating, time)
        begun.setdefault(review.card, time)
    today = now.astimezone(UTC).date()
    begun_today = sum(time.date() == today for time in begun.values())
    return Progress(states=states, begun_today=begun_today, num_future=num_future)


def next_card(cards: Sequence[Card], progress: Progress, now: datetime, new: int) -> Card | None:
    """The card to look at now: what is due, then new ones, then what is just being learned.

    Args:
        cards: in the order in which new ones come.
        progress: from `replay`.
        now: by the present clock.
        new: new cards a day.
    """
    due = due_cards(cards, progress, now)
    if due:
        return due[0]
    fresh = new_cards(cards, progress, new)
    if fresh:
        return fresh[0]
    early = due_cards(cards, progress, now + AHEAD)
    return next((card for card in early if progress.states[card.id].phase != "review"), None)


def due_cards(cards: Sequence[Card], progress: Progress, now: datetime) -> list[Card]:
    """The cards that are due, the longest overdue first."""
    states = progress.states
    due = [card for card in cards if card.id in states and states[card.id].due <= now]
    return sorted(due, key=lambda card: states[card.id].due)


def new_cards(cards: Sequence[Card], progress: Progress, new: int) -> list[Card]:
    """The new cards that this day still has room for, in their order."""
    fresh = [card for card in cards if card.id not in progress.states]
    return fresh[: max(0, new - progress.begun_today)]
