"""The record of a lab part: a number cannot be printed without an assertion."""

import pytest
import torch

from manyheads.core.errors import LabError
from manyheads.learn.lab.record import Equals, Item, Record, words

TWO = Equals(source="by hand", numbers=(1, 2))


def new_record() -> Record:
    return Record(part=1, title="a title", prediction="what then?", try_name="nothing")


@pytest.mark.parametrize(
    "text", ["it is 5", "W_O has 4 rows", "5.7", "3e-16", "T=4", "head 1 of 2"]
)
def test_words_that_state_a_number_are_refused(text: str) -> None:
    with pytest.raises(LabError, match="states a number without an assertion"):
        words(text)


@pytest.mark.parametrize("text", ["head 1", "positions 1 and 2", "output 3 of head 2", "no number"])
def test_names_with_an_ordinal_may_stand(text: str) -> None:
    assert words(text) == text


def test_every_door_for_words_refuses_numbers() -> None:
    record = new_record()
    record.table("a caption", ("key 1", "key 2"))
    refused = [
        lambda: record.say("it is 5"),
        lambda: record.table("it is 5"),
        lambda: record.table("a caption", ("5",)),
        lambda: record.row("it is 5", lambda: (1, 2), TWO),
        lambda: Record(part=1, title="it is 5", prediction="", try_name=""),
        lambda: Record(part=1, title="", prediction="is it 5?", try_name=""),
    ]
    for attempt in refused:
        with pytest.raises(LabError, match="states a number"):
            attempt()
    assert record.items == []


def test_a_row_cannot_be_written_without_an_assertion() -> None:
    record = new_record()
    record.table("a caption")
    with pytest.raises(TypeError, match="first"):
        record.row("a row", lambda: (1, 2))  # type: ignore[call-arg]


def test_an_item_cannot_be_made_without_an_assertion() -> None:
    with pytest.raises(LabError, match=r"item \(a row\) has no assertion"):
        Item(name="a row", label="a row", cells=(1,), assertions=(), failures=())


def test_a_row_outside_a_table_is_refused() -> None:
    record = new_record()
    record.say("words")
    with pytest.raises(LabError, match=r"row \(a row\) has no table"):
        record.row("a row", lambda: (1, 2), TWO)


def test_a_failed_row_names_itself_and_the_next_ones_still_run() -> None:
    record = new_record()
    record.table("a caption", ("key 1", "key 2"))
    record.row("wrong row", lambda: (1, 3), TWO)
    record.row("right row", lambda: (1, 2), TWO)
    wrong, right = record.items
    assert not wrong.passed
    assert right.passed
    assert record.failures == ["a caption, wrong row: key 2: printed 3, expected 2 (by hand)"]
    assert not record.passed


def test_every_assertion_of_a_row_is_asked() -> None:
    record = new_record()
    record.table("a caption")
    record.row("a row", lambda: (1, 2), TWO, Equals(source="published", numbers=(1, 9)))
    assert record.failures == ["a caption, a row: printed 2, expected 9 (published)"]


def test_a_measurement_that_raises_fails_its_row_alone() -> None:
    record = new_record()
    record.table("a caption")
    record.row("broken", lambda: (1 // 0,), TWO)
    record.row("right", lambda: (1, 2), TWO)
    assert [item.passed for item in record.items] == [False, True]
    assert record.items[0].texts == ("not computed",)
    assert "broken: printed nothing (ZeroDivisionError: " in record.failures[0]
    assert "expected (1, 2)" in record.failures[0]


def test_a_measurement_of_more_than_one_axis_is_refused() -> None:
    record = new_record()
    record.table("a caption")
    record.row("square", lambda: torch.zeros(2, 2), TWO)
    assert "measurement has shape (2, 2)" in record.failures[0]


def test_a_part_that_raises_is_a_failure_and_keeps_what_it_wrote() -> None:
    def part(record: Record) -> None:
        record.table("a caption")
        record.row("right", lambda: (1, 2), TWO)
        raise ValueError("no more\npaper")

    record = new_record()
    record.write(part)
    assert record.failures == ["the rest was not reached: ValueError: no more paper"]
    assert len(record.items) == 1
    assert not record.passed


def test_a_part_that_prints_nothing_does_not_pass() -> None:
    record = new_record()
    record.write(lambda record: record.say("words"))
    assert not record.passed


def test_a_failed_row_never_shows_the_exact_number_it_missed() -> None:
    record = new_record()
    record.table("a caption")
    record.row("a row", lambda: torch.tensor([3.5, 2.0], dtype=torch.float64), TWO)
    assert record.items[0].texts == ("3.500", "2.000")
