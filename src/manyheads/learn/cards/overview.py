"""What a learner has done so far, as tables and as JSON."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from manyheads.learn.cards.deck import Card, deck_json
from manyheads.learn.cards.progress import Progress, due_cards
from manyheads.learn.cards.schedule import CardState

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
        lines.append(f"\nKnown when they came again: {100 * total['recalled']:.0f} %.")
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
