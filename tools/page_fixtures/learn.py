"""What the page's learn view must agree with: due dates, merged files, marks, outcomes.

The terminal's functions compute them; the same seed gives the same document.
"""

import json
import random
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from manyheads.core.errors import LearnError
from manyheads.learn.cards.deck import deck
from manyheads.learn.cards.reviews import FILE_NAME, Review, import_reviews, read_reviews
from manyheads.learn.cards.schedule import NEW_A_DAY, due_cards, next_card, replay
from manyheads.learn.predictions import direction_of, judge
from manyheads.learn.quiz.question import mark_numeric
from manyheads.learn.sentences import value_text
from manyheads.learn.worksheet_tries import tries_of
from manyheads.worksheets.arithmetic import Number, float_of, is_exact
from manyheads.worksheets.library import worksheet, worksheet_names
from manyheads.worksheets.numbers import exact_text, parse_number
from tools.page.learn import changes_of

SEED, HISTORIES, MERGES = 6, 40, 20
BEGINNING = datetime(2026, 1, 5, 7, 30, tzinfo=UTC)
_GAPS = (5, 60, 400, 3600, 86_000, 86_400, 200_000, 900_000, 4_000_000)
"""Seconds between two reviews."""
_JUMPS = (-40_000, -900_000, 700_000, 40_000_000)
"""Seconds by which a clock is set wrong."""
WANTED = ("26/7", "1/3", "0", "-15/7", "4", "sqrt(2)/2", "ln(2)", "69*sqrt(2)/20", "1000", "0.0125")
TYPED = (
    *("26/7", "3.71", "3.714", "3.7143", "3.715", "4", "4.0", "4.00", "0.333", "0.33", ".333"),
    *("0.3334", "1/3", "2/6", "0", "-0", "0.000", "0.001", "-15/7", "-2.14", "-2.143", "2.143"),
    *("0.707", "sqrt(2)/2", "1/sqrt(2)", "sqrt 2 / 2", "0.70710678118654752440", "ln 2", "0.693"),
    *("6.93e-1", "693e-3", "4.88", "4.879", "4.9", "1e3", "1000", "999.9996", "1000.4", "1.00e3"),
    *("0.0125", "0.012", "0.013", "0.0130", "1.25e-2", "\N{MINUS SIGN}2.143", " 3.714 ", "3,714"),
    *("", " ", "abc", "1/0", "9" * 31, "1e31", "(1", "3.714 abc", "NaN", "1e-31", "2.5", "0.5"),
)
"""Texts that learners type; each is marked against every wanted number."""


def fixture(seed: int = SEED) -> dict[str, Any]:
    """Everything, as one JSON document."""
    chance = random.Random(seed)
    return {
        "histories": [_history(chance) for _ in range(HISTORIES)],
        "merges": [_merge(chance) for _ in range(MERGES)],
        "marks": list(_marks()),
        "tries": list(_tries()),
    }


def _reviews(chance: random.Random, count: int, num_cards: int) -> list[Review]:
    """Reviews of the first cards of the deck; now and then the clock is wrong."""
    ids = [card.id for card in deck()[:num_cards]] + ["a-card-that-is-gone"]
    time, wrong = BEGINNING + timedelta(seconds=chance.randrange(500_000)), timedelta()
    reviews = []
    for _ in range(count):
        time += timedelta(seconds=chance.choice(_GAPS), milliseconds=chance.randrange(1000))
        if chance.random() < 0.1:
            wrong = timedelta(seconds=chance.choice((0, 0, *_JUMPS)))
        rating = chance.choices((1, 2, 3, 4), (2, 1, 5, 2))[0]
        reviews.append(Review(card=chance.choice(ids), rating=rating, when=time + wrong))
    return reviews


def _history(chance: random.Random) -> dict[str, Any]:
    """A row of reviews, the present, and where every card stands then."""
    reviews = _reviews(chance, chance.randint(1, 60), chance.randint(1, 6))
    seconds = chance.choice((0, 30, 5000, 100_000, 2_000_000, -30_000_000))
    now = reviews[-1].when + timedelta(seconds=seconds)
    progress = replay(reviews, now)
    chosen = next_card(deck(), progress, now, NEW_A_DAY)
    return {
        "lines": [review.record for review in reviews],
        "now": _milliseconds(now),
        "states": {
            name: {
                "due": _milliseconds(state.due),
                "state": state.phase,
                "reviews": state.num_reviews,
            }
            for name, state in progress.states.items()
        },
        "begun_today": progress.begun_today,
        "num_future": progress.num_future,
        "due": [card.id for card in due_cards(deck(), progress, now)],
        "next": chosen.id if chosen else None,
    }


def _milliseconds(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _merge(chance: random.Random) -> dict[str, Any]:
    """Two files with reviews in common, and the one that the terminal makes of them."""
    reviews = _reviews(chance, chance.randint(2, 30), 4)
    parts: tuple[list[Review], list[Review]] = ([], [])
    for review in reviews:
        for part in chance.choice(((0,), (1,), (0, 1))):
            parts[part].append(review)
    mine, others = ([review.record for review in part] for part in parts)
    with tempfile.TemporaryDirectory() as name:
        folder, given = Path(name), Path(name) / "given.jsonl"
        (folder / FILE_NAME).write_text(_lines(mine), encoding="utf-8")
        given.write_text(_lines(others), encoding="utf-8")
        import_reviews(folder, given)
        merged = [review.record for review in read_reviews(folder).reviews]
    return {"mine": mine, "others": others, "merged": merged}


def _lines(records: list[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def _marks() -> Iterator[dict[str, Any]]:
    for text in WANTED:
        value = parse_number(text)
        for typed in TYPED:
            yield {"wanted": _number(value), "typed": typed, "right": _is_right(typed, value)}


def _is_right(typed: str, value: Number) -> bool | None:
    """None for what is no number."""
    try:
        return mark_numeric(typed, value).is_right
    except LearnError:
        return None


def _tries() -> Iterator[dict[str, Any]]:
    """Every experiment of the page with its outcome, and predictions of it."""
    for name in worksheet_names():
        sheet = worksheet(name)
        for sequence in sheet.sequence_names:
            for one in tries_of(sheet, sequence):
                if one.name not in changes_of(sheet):
                    continue
                texts = (
                    "higher",
                    "lower",
                    "same",
                    "L",
                    "0.333",
                    value_text(one.after).split()[-1],
                )
                yield {
                    "worksheet": name,
                    "sequence": sequence,
                    "name": one.name,
                    "before": float_of(one.before),
                    "after": float_of(one.after),
                    "shown": value_text(one.after),
                    "direction": direction_of(one.before, one.after),
                    "judged": {text: judge(text, one.before, one.after).right for text in texts},
                }


def _number(value: Number) -> dict[str, Any]:
    return {"value": float_of(value), "exact": exact_text(value) if is_exact(value) else None}
