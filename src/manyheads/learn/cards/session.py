"""A session with the cards, and the learner's progress as tables and as JSON."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from manyheads.learn.cards.deck import Card, deck, deck_json
from manyheads.learn.cards.reviews import FILE_NAME, Review, add_review, new_review, read_reviews
from manyheads.learn.cards.schedule import (
    NEW_A_DAY,
    CardState,
    Progress,
    due_cards,
    new_cards,
    next_card,
    replay,
)


def utc_now() -> datetime:
    """The present by this computer's clock."""
    return datetime.now(UTC)


class Session:
    """A learner, some cards, and the learner's folder.

    Args:
        folder: the learner's.
        cards: of the deck, in the order in which new ones come.
        new: new cards a day.
        clock: gives the present, in UTC.

    Raises:
        LearnError: the learner's file is damaged; the message names the line.
    """

    def __init__(
        self,
        folder: Path,
        cards: Sequence[Card],
        new: int = NEW_A_DAY,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.path = folder / FILE_NAME
        """The file of the reviews."""
        self._folder, self._cards, self._new, self._clock = folder, cards, new, clock
        found = read_reviews(folder)
        self._reviews = list(found.reviews)
        self._is_torn = found.is_torn
        self._given: list[Review] = []

    def now(self) -> datetime:
        """The present, in UTC."""
        return self._clock()

    def progress(self) -> Progress:
        """The state of every card now."""
        return replay(self._reviews, self.now())

    def next(self) -> Card | None:
        """The card to review now; None if there is none."""
        return next_card(self._cards, self.progress(), self.now(), self._new)

    def counts(self) -> tuple[int, int]:
        """How many cards are due now, and how many new ones may come today."""
        progress = self.progress()
        due = due_cards(self._cards, progress, self.now())
        return len(due), len(new_cards(self._cards, progress, self._new))

    def rate(self, card: Card, rating: int) -> CardState:
        """Write a rating down; it is on disk when this returns.

        Raises:
            LearnError: no such rating, or the file cannot be written.
        """
        review = new_review(card.id, rating, self.now())
        self._given.append(review)  # before it is saved: an interrupt may come right after
        add_review(self._folder, review)
        self._reviews.append(review)
        return self.progress().states[card.id]

    @property
    def num_saved(self) -> int:
        """Number of reviews of this session that the file holds."""
        saved = set(read_reviews(self._folder).reviews) if self._given else set()
        return sum(review in saved for review in self._given)

    def next_due(self) -> datetime | None:
        """When the next of the cards comes again; None where none was begun."""
        states = self.progress().states
        return min((states[c.id].due for c in self._cards if c.id in states), default=None)

    def notes(self) -> list[str]:
        """Warnings about the file, one line each; none of them stops the session."""
        progress, total = self.progress(), len(self._reviews)
        known = {card.id for card in deck()}
        foreign = sum(review.card not in known for review in self._reviews)
        found = []
        if self._is_torn:
            found.append(
                f"file ({self.path}) ends in an incomplete line, left by a crash: the next review "
                "moves the line to a separate file; all earlier reviews are safe"
            )
        if progress.num_future:
            found.append(
                f"clock ({self.now():%Y-%m-%d %H:%M} UTC) is before the dates of "
                f"{progress.num_future} of {total} reviews: set the clock if it is wrong; these "
                "reviews get the last trusted date before them, and none is lost"
            )
        if foreign:
            found.append(
                f"{foreign} of {total} reviews are of cards that this deck does not have: they "
                "are kept"
            )
        return found


_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"))


def list_json(cards: Sequence[Card], progress: Progress, now: datetime) -> list[dict[str, Any]]:
    """Every card with its state: phase, due, reviews, lapses, stability (days), difficulty."""
    states = progress.states
    return [
        row | _state_json(states.get(card.id), now)
        for card, row in zip(cards, deck_json(cards), strict=True)
    ]


def list_text(cards: Sequence[Card], progress: Progress, now: datetime) -> str:
    """Every card on a line of its own: id, phase, due."""
    lines = [f"{'card':<34}{'state':<12}due"]
    for card in cards:
        state = progress.states.get(card.id)
        phase, due = (state.phase, in_words(state.due - now)) if state else ("new", "")
        lines.append(f"{card.id:<34}{phase:<12}{due}".rstrip())
    return "\n".join(lines)


def stats_json(cards: Sequence[Card], progress: Progress, now: datetime) -> dict[str, Any]:
    """Counts of some cards; `recalled` is the share of learned cards that were known, or None."""
    states = [progress.states[card.id] for card in cards if card.id in progress.states]
    tests = sum(state.num_tests for state in states)
    lapses = sum(state.num_lapses for state in states)
    learned = sum(state.phase == "review" for state in states)
    return {
        "cards": len(cards),
        "new": len(cards) - len(states),
        "learning": len(states) - learned,
        "learned": learned,
        "due": len(due_cards(cards, progress, now)),
        "due_in_a_week": len(due_cards(cards, progress, now + timedelta(days=7))),
        "reviews": sum(state.num_reviews for state in states),
        "recalled": 1 - lapses / tests if tests else None,
    }


def stats_text(topics: Sequence[tuple[str, dict[str, Any]]], total: dict[str, Any]) -> str:
    """A line a topic, and what all came to."""
    names = ("cards", "new", "learning", "learned", "due", "reviews")
    lines = [f"{'topic':<14}" + "".join(f"{name:>10}" for name in names)]
    for topic, row in (*topics, ("all", total)):
        lines.append(f"{topic:<14}" + "".join(f"{row[name]:>10}" for name in names))
    if total["recalled"] is not None:
        lines.append(f"\nRecalled in reviews of learned cards: {100 * total['recalled']:.0f} %.")
    return "\n".join(lines)


def in_words(wait: timedelta) -> str:
    """How long until then: now, in 10 minutes, in 3 days."""
    seconds = wait.total_seconds()
    if seconds <= 0:
        return "now"
    for length, name in _UNITS:
        count = round(seconds / length)
        if seconds >= length and count:
            return f"in {count} {name}{'s' if count > 1 else ''}"
    return "in a minute"


def _state_json(state: CardState | None, now: datetime) -> dict[str, Any]:
    if state is None:
        return {"state": "new", "due": None, "is_due": False, "reviews": 0, "lapses": 0}
    return {
        "state": state.phase,
        "due": state.due.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "is_due": state.due <= now,
        "reviews": state.num_reviews,
        "lapses": state.num_lapses,
        "stability": state.memory.stability,
        "difficulty": state.memory.difficulty,
    }
