"""When cards are due: FSRS as pinned, replayed, whatever the clock said."""

from datetime import UTC, datetime, timedelta

import fsrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import LearnError
from manyheads.learn.cards import deck
from manyheads.learn.cards.reviews import Review
from manyheads.learn.cards.schedule import (
    AHEAD,
    LEEWAY,
    PARAMETERS,
    after_review,
    due_cards,
    new_cards,
    next_card,
    replay,
    settings_json,
    trusted_times,
)

START = datetime(2026, 1, 1, 8, tzinfo=UTC)
DAY = timedelta(days=1)


def at(days: float) -> datetime:
    return START + timedelta(days=days)


def review(days: float, card: str = "a", rating: int = 3) -> Review:
    return Review(card=card, rating=rating, when=at(days))


def test_a_new_card_comes_after_a_minute_ten_minutes_or_days() -> None:
    waits = [after_review(None, rating, START).due - START for rating in (1, 2, 3, 4)]
    minute = timedelta(minutes=1)
    assert waits[:3] == [minute, 5.5 * minute, 10 * minute]
    assert waits[3] == 8 * DAY  # the initial stability of "easy", 8.2956 days


def test_a_card_moves_from_learning_to_review_and_back() -> None:
    learning = after_review(None, 3, START)
    learned = after_review(learning, 3, learning.due)
    forgotten = after_review(learned, 1, learned.due)
    assert [s.phase for s in (learning, learned, forgotten)] == ["learning", "review", "relearning"]
    assert [s.num_reviews for s in (learning, learned, forgotten)] == [1, 2, 3]
    assert [s.num_tests for s in (learning, learned, forgotten)] == [0, 0, 1]
    assert forgotten.num_lapses == 1
    assert forgotten.due == learned.due + timedelta(minutes=10)


def test_knowing_a_card_later_makes_it_stay_away_longer() -> None:
    state, waits = after_review(None, 4, START), []
    for _ in range(4):
        state = after_review(state, 3, state.due)
        waits.append(state.due - state.memory.last_review)
    assert waits == sorted(waits)
    assert waits[0] > 10 * DAY


def test_the_pinned_settings_are_those_of_the_package_today() -> None:
    assert fsrs.Scheduler(enable_fuzzing=False).parameters == PARAMETERS
    assert settings_json()["parameters"] == list(PARAMETERS)


def test_the_same_reviews_always_give_the_same_state() -> None:
    reviews = [review(day, card, 1 + day % 4) for day in range(30) for card in "abc"]
    assert replay(reviews, at(40)).states == replay(reviews, at(41)).states


def test_dates_in_order_are_trusted_as_they_are() -> None:
    dates = [at(day) for day in (0, 1, 1, 5)]
    assert trusted_times(dates, at(6)) == (dates, 0)
    assert trusted_times([], at(6)) == ([], 0)


def test_a_clock_set_back_for_a_while_counts_as_the_last_date_before() -> None:
    days = [0, 1, 2, -2000, -1999, 3, 4]
    times, num_future = trusted_times([at(day) for day in days], at(5))
    assert times == [at(day) for day in (0, 1, 2, 2, 2, 3, 4)]
    assert num_future == 0


def test_a_clock_far_ahead_for_a_while_counts_as_the_last_date_before() -> None:
    dates = [at(day) for day in (0, 1, 30000, 30001, 2, 3, 4)]
    expected = [at(day) for day in (0, 1, 1, 1, 2, 3, 4)]
    assert trusted_times(dates, at(5)) == (expected, 2)
    # Also when that day has come at last: the longer run of dates is right.
    assert trusted_times(dates, at(40000)) == (expected, 0)


def test_where_every_date_lies_ahead_all_count_as_made_now() -> None:
    assert trusted_times([at(100), at(101)], at(0)) == ([at(0), at(0)], 2)


def test_a_date_up_to_a_day_ahead_is_another_time_zone_and_no_mistake() -> None:
    assert trusted_times([at(0), at(0.9)], at(0)) == ([at(0), at(0.9)], 0)
    assert trusted_times([at(0), at(1.1)], at(0)) == ([at(0), at(0)], 1)


@given(st.lists(st.integers(-50, 50), max_size=12), st.integers(-50, 50))
def test_trusted_times_never_decrease_and_keep_a_longest_run(days: list[int], now: int) -> None:
    dates = [at(day) for day in days]
    times, num_future = trusted_times(dates, at(now))
    assert times == sorted(times)
    assert len(times) == len(days)
    assert all(time <= at(now + 1) for time in times)
    assert num_future == sum(day > now + 1 for day in days)
    longest = [0] * len(days)  # by trying every earlier date, not by patience
    for i, day in enumerate(days):
        if day <= now + 1:
            before = [longest[j] for j in range(i) if days[j] <= day and days[j] <= now + 1]
            longest[i] = 1 + max(before, default=0)
    kept = sum(time == date for time, date in zip(times, dates, strict=True))
    assert kept >= max(longest, default=0)


def test_a_wrong_date_does_not_make_a_card_look_well_known() -> None:
    honest = [review(0), review(0.01), review(3)]
    expected = replay(honest, at(4)).states["a"]
    others = [review(day, "b") for day in (0.5, 1, 2)]
    ahead = [review(0), review(0.01), *others, review(36000), review(3.5, "b")]
    found = replay(ahead, at(4)).states["a"]
    assert found.memory.stability <= expected.memory.stability
    assert found.due < at(20)


def test_a_clock_beyond_all_sense_is_named() -> None:
    with pytest.raises(LearnError, match=r"clock \(9998-01-01\) is wrong"):
        replay([review(0)], datetime(9998, 1, 1, tzinfo=UTC))


def test_due_cards_come_first_then_new_ones_then_what_is_being_learned() -> None:
    cards = deck()[:4]
    ids = [card.id for card in cards]
    known = [review(0, ids[2], 4), review(0.001, ids[1])]
    later = replay(known, at(9))
    assert [card.id for card in due_cards(cards, later, at(9))] == [ids[1], ids[2]]
    assert next_card(cards, later, at(9), new=5) is cards[1]
    soon = at(0.001) + timedelta(minutes=1)
    just_now = replay(known, soon)
    assert due_cards(cards, just_now, soon) == []
    assert next_card(cards, just_now, soon, new=5) is cards[0]
    assert next_card(cards, just_now, soon, new=0) is cards[1]  # due in nine minutes
    early = replay(known[:1], soon)
    assert next_card(cards, early, soon, new=0) is None  # learned cards do not come early
    assert timedelta(minutes=10) < AHEAD


def test_a_day_has_room_for_so_many_new_cards_and_the_next_day_for_more() -> None:
    cards = deck()[:5]
    begun = [review(0, cards[0].id), review(0.1, cards[1].id), review(0.2, cards[0].id)]
    today, tomorrow = replay(begun, at(0.3)), replay(begun, at(1))
    assert today.begun_today == 2
    assert new_cards(cards, today, 3) == [cards[2]]
    assert new_cards(cards, today, 2) == []
    assert new_cards(cards, tomorrow, 2) == [cards[2], cards[3]]


def test_a_review_of_a_card_that_the_deck_lacks_is_harmless() -> None:
    progress = replay([review(0, "gone")], at(5))
    assert set(progress.states) == {"gone"}
    assert due_cards(deck(), progress, at(5)) == []


def test_a_card_being_learned_comes_early_up_to_the_limit_and_not_before() -> None:
    cards = deck()[:1]
    progress = replay([review(0, cards[0].id, 3)], at(0))
    due = progress.states[cards[0].id].due
    second = timedelta(seconds=1)
    assert next_card(cards, progress, due - AHEAD, new=0) is cards[0]
    assert next_card(cards, progress, due - AHEAD - second, new=0) is None


def test_a_date_is_trusted_up_to_the_leeway_and_not_beyond() -> None:
    later = at(0) + LEEWAY
    assert trusted_times([at(0), later], at(0)) == ([at(0), later], 0)
    beyond = later + timedelta(milliseconds=1)
    assert trusted_times([at(0), beyond], at(0)) == ([at(0), at(0)], 1)


def test_a_card_is_due_at_its_time_and_not_a_moment_before() -> None:
    cards = deck()[:1]
    progress = replay([review(0, cards[0].id, 4)], at(1))
    due = progress.states[cards[0].id].due
    assert due_cards(cards, progress, due) == [cards[0]]
    assert due_cards(cards, progress, due - timedelta(microseconds=1)) == []


def test_the_last_year_that_a_clock_may_show() -> None:
    assert replay([], datetime(9000, 12, 31, tzinfo=UTC)).states == {}
    with pytest.raises(LearnError, match="is wrong: set the clock"):
        replay([], datetime(9001, 1, 1, tzinfo=UTC))
