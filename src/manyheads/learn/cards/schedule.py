"""When each card is due: FSRS with fixed settings, applied to the reviews in their order.

Nothing of this is stored: the state of each card is computed from the reviews each time. The page
schedules with the same settings (`settings_json`).
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from fsrs import Card as Memory
from fsrs import Rating, Scheduler, State

from manyheads.core.errors import LearnError
from manyheads.learn.cards.deck import Card
from manyheads.learn.cards.reviews import Review

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
    """The state of a card after its last review."""

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
    """Compute the state of a card after a review.

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


LEEWAY = timedelta(days=1)
"""A review may be dated this much after the present: another device's clock may be ahead."""


def trusted_times(dates: Sequence[datetime], now: datetime) -> tuple[list[datetime], int]:
    """Times that never decrease, as near to the dates as can be.

    The order of the file is the order in which reviews were made. Trusted is the longest run of
    dates that fits it and is not in the future; every other review counts as made at the
    last trusted date before it (or, where there is none, the first after it).

    Args:
        dates: as they were written down, in the order of the file.
        now: by the present clock.

    Returns:
        times: one a review.
        num_future: number of dates later than the present by more than `LEEWAY`.
    """
    possible = [index for index, date in enumerate(dates) if date <= now + LEEWAY]
    kept = set(_longest_run([dates[index] for index in possible]))
    trusted = {possible[place] for place in kept}
    last = dates[min(trusted)] if trusted else now
    times = []
    for index, date in enumerate(dates):
        last = date if index in trusted else last
        times.append(last)
    return times, len(dates) - len(possible)


def _longest_run(dates: Sequence[datetime]) -> list[int]:
    """Places of a longest sequence that never decreases, by patience sorting."""
    ends: list[datetime] = []  # the least last date of a run of each length
    places: list[int] = []  # the index of that date
    before: list[int] = []  # for each date, the place of the one before it in its run
    for place, date in enumerate(dates):
        length = bisect_right(ends, date)
        before.append(places[length - 1] if length else -1)
        if length == len(ends):
            ends.append(date)
            places.append(place)
        else:
            ends[length], places[length] = date, place
    run, place = [], places[-1] if places else -1
    while place >= 0:
        run.append(place)
        place = before[place]
    return run[::-1]


_LAST_YEAR = 9000
"""Dates end with the year 9999; a clock beyond this is not worth following."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The state that follows from all reviews."""

    states: dict[str, CardState]
    """By card id; new cards are absent. Cards that the deck lacks are here too."""
    begun_today: int
    """Cards whose first review was made on this day of UTC."""
    num_future: int
    """Reviews dated more than a day after the present."""


def replay(reviews: Sequence[Review], now: datetime) -> Progress:
    """Compute the state of every card.

    Args:
        reviews: in the order of the file.
        now: by the present clock.

    Raises:
        LearnError: the clock is beyond all sense.
    """
    if now.year > _LAST_YEAR:
        raise LearnError(f"clock ({now:%Y-%m-%d}) is wrong: set the clock; no review is lost")
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
