"""How FSRS moves a card from review to review, with settings that are pinned.

The page schedules with the same settings (`settings_json`).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from fsrs import Card as Memory
from fsrs import Rating, Scheduler, State

PARAMETERS = (
    *(0.212, 1.2931, 2.3065, 8.2956, 6.4133, 0.8334, 3.0194),
    *(0.001, 1.8722, 0.1666, 0.796, 1.4835, 0.0614, 0.2629),
    *(1.6483, 0.6014, 1.8729, 0.5425, 0.0912, 0.0658, 0.1542),
)
"""Weights of FSRS-6, pinned so that no update moves a due date.

Source: the defaults of fsrs 6.3, github.com/open-spaced-repetition/py-fsrs.
"""
RETENTION = 0.9
"""A card is due when the chance of knowing it has fallen to this, a fraction from 0 to 1."""
LEARNING_MINUTES, RELEARNING_MINUTES = (1, 10), (10,)
"""Minutes until a new card, or a forgotten one, comes again."""
LONGEST_DAYS = 3650
"""No card stays away for longer, in days."""
NEW_A_DAY = 10
"""New cards a day (of UTC), unless another number is asked for."""
AHEAD = timedelta(minutes=20)
"""A card that is being learned comes this early when nothing else is left."""


@dataclass(frozen=True, kw_only=True)
class CardState:
    """Where a card stands after its last review."""

    memory: Memory
    """As FSRS keeps it: due, last review, stability in days, difficulty from 1 to 10."""
    num_reviews: int
    """How often the card was looked at."""
    num_tests: int
    """How often it came after it had been learned."""
    num_lapses: int
    """How often it was forgotten then."""

    @property
    def due(self) -> datetime:
        """When it comes again, in UTC."""
        return self.memory.due

    @property
    def phase(self) -> str:
        """`learning`, `review` or `relearning`."""
        return self.memory.state.name.lower()


def after_review(state: CardState | None, rating: int, when: datetime) -> CardState:
    """Where a card stands after a review.

    Args:
        state: before it; None for a new card.
        rating: 1 (again) to 4 (easy).
        when: in UTC, not before the last review.
    """
    before = state.memory if state else Memory(card_id=0, due=when)
    memory, _ = _scheduler().review_card(before, Rating(rating), when)
    is_test = before.state == State.Review
    return CardState(
        memory=memory,
        num_reviews=(state.num_reviews if state else 0) + 1,
        num_tests=(state.num_tests if state else 0) + is_test,
        num_lapses=(state.num_lapses if state else 0) + (is_test and rating == Rating.Again),
    )


def settings_json() -> dict[str, Any]:
    """The settings for a page that schedules too."""
    return {
        "parameters": list(PARAMETERS),
        "retention": RETENTION,
        "learning_minutes": list(LEARNING_MINUTES),
        "relearning_minutes": list(RELEARNING_MINUTES),
        "longest_days": LONGEST_DAYS,
        "new_a_day": NEW_A_DAY,
        "ahead_minutes": AHEAD // timedelta(minutes=1),
    }


@cache
def _scheduler() -> Scheduler:
    return Scheduler(
        parameters=PARAMETERS,
        desired_retention=RETENTION,
        learning_steps=tuple(timedelta(minutes=minutes) for minutes in LEARNING_MINUTES),
        relearning_steps=tuple(timedelta(minutes=minutes) for minutes in RELEARNING_MINUTES),
        maximum_interval=LONGEST_DAYS,
        enable_fuzzing=False,
    )
