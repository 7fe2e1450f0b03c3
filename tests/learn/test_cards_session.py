"""A sitting: what comes next, with a clock of our own."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from manyheads.core.errors import LearnError
from manyheads.learn.cards import deck
from manyheads.learn.cards.reviews import FILE_NAME
from manyheads.learn.cards.session import Session, in_words, list_json, list_text, stats_json

CARDS = deck()[:4]


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 8, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def wait(self, **by: float) -> None:
        self.now += timedelta(**by)


def test_a_sitting_goes_through_new_cards_and_comes_back_to_what_was_not_known(
    tmp_path: Path,
) -> None:
    clock = Clock()
    session = Session(tmp_path, CARDS, new=2, clock=clock)
    assert session.counts() == (0, 2)
    session.rate(CARDS[0], 1)
    clock.wait(seconds=10)
    assert session.next() is CARDS[1]
    session.rate(CARDS[1], 4)
    assert session.counts() == (0, 0)
    assert session.next() is CARDS[0]  # in fifty seconds, and nothing else is left
    clock.wait(minutes=1)
    assert session.counts() == (1, 0)
    assert session.num_saved == 2


def test_another_sitting_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    clock = Clock()
    Session(tmp_path, CARDS, clock=clock).rate(CARDS[0], 4)
    clock.wait(days=1)
    again = Session(tmp_path, CARDS, clock=clock)
    assert again.next() is CARDS[1]
    assert again.next_due() == datetime(2026, 1, 9, 8, tzinfo=UTC)
    clock.wait(days=7)
    assert again.next() is CARDS[0]
    assert again.notes() == []


def test_a_clock_set_back_is_told_and_loses_no_progress(tmp_path: Path) -> None:
    clock = Clock()
    session = Session(tmp_path, CARDS, clock=clock)
    for card in CARDS[:3]:
        session.rate(card, 4)
    clock.wait(days=1)
    honest = session.progress().states
    clock.wait(days=-3000)
    back = Session(tmp_path, CARDS, clock=clock)
    (note,) = back.notes()
    assert note.startswith("clock (2017-10-16 08:00 UTC) is before the dates of 3 of 3 reviews: ")
    assert back.next() is CARDS[3]
    back.rate(CARDS[3], 4)
    clock.wait(days=3000)
    repaired = Session(tmp_path, CARDS, clock=clock)
    assert repaired.notes() == []
    states = repaired.progress().states
    assert {card_id: states[card_id] for card_id in honest} == honest
    assert states[CARDS[3].id].due == honest[CARDS[2].id].due


def test_a_clock_far_ahead_is_told_once_it_is_right_again(tmp_path: Path) -> None:
    clock = Clock()
    session = Session(tmp_path, CARDS, clock=clock)
    session.rate(CARDS[0], 4)
    clock.wait(days=100_000)
    session.rate(CARDS[1], 4)
    clock.wait(days=-99_990)
    again = Session(tmp_path, CARDS, clock=clock)
    (note,) = again.notes()
    assert "is before the dates of 1 of 2 reviews" in note
    assert again.counts() == (2, 2)  # both count as made ten days ago


def test_reviews_of_cards_that_the_deck_lacks_are_kept_and_told(tmp_path: Path) -> None:
    line = '{"card": "an-old-card", "rating": 3, "when": "2026-01-01T07:00:00.000Z"}\n'
    (tmp_path / FILE_NAME).write_text(line)
    session = Session(tmp_path, CARDS, clock=Clock())
    assert session.notes() == [
        "1 of 1 reviews are of cards that this deck does not have: they are kept"
    ]
    session.rate(CARDS[0], 3)
    assert (tmp_path / FILE_NAME).read_text().startswith(line)


def test_half_a_line_is_told(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"card"')
    (note,) = Session(tmp_path, CARDS, clock=Clock()).notes()
    assert "ends in an incomplete line, left by a crash" in note


def test_a_damaged_file_stops_the_sitting_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("nonsense\n")
    with pytest.raises(LearnError, match=r"is damaged in line 1"):
        Session(tmp_path, CARDS, clock=Clock())


def test_lists_and_counts_say_what_was_done(tmp_path: Path) -> None:
    clock = Clock()
    session = Session(tmp_path, CARDS, clock=clock)
    session.rate(CARDS[0], 4)
    session.rate(CARDS[1], 3)
    clock.wait(days=9)
    session.rate(CARDS[0], 1)
    progress = session.progress()
    row = list_json(CARDS, progress, clock.now)[0]
    assert (row["id"], row["state"], row["lapses"]) == (CARDS[0].id, "relearning", 1)
    assert (row["due"], row["is_due"]) == ("2026-01-10T08:10:00.000Z", False)
    text = list_text(CARDS, progress, clock.now).splitlines()
    assert text[1].split() == [CARDS[0].id, "relearning", "in", "10", "minutes"]
    assert text[2].split() == [CARDS[1].id, "learning", "now"]
    assert text[3].split() == [CARDS[2].id, "new"]
    assert stats_json(CARDS, progress, clock.now) == {
        "cards": 4,
        "new": 2,
        "learning": 2,
        "learned": 0,
        "due": 1,
        "due_in_a_week": 2,
        "reviews": 3,
        "recalled": 0.0,
    }
    assert stats_json(CARDS[2:], progress, clock.now)["recalled"] is None


@pytest.mark.parametrize(
    ("wait", "words"),
    [
        (timedelta(days=-3), "now"),
        (timedelta(seconds=30), "in a minute"),
        (timedelta(seconds=60), "in 1 minute"),
        (timedelta(minutes=10), "in 10 minutes"),
        (timedelta(hours=23, minutes=50), "in 24 hours"),
        (timedelta(days=8), "in 8 days"),
    ],
)
def test_a_wait_in_words(wait: timedelta, words: str) -> None:
    assert in_words(wait) == words
