"""An exercise keeps its numbers and sentences, and an answer keeps its mark."""

from manyheads.learn.exercises import KINDS
from tests.learn.exercise_pins import SEEDS, drawn_documents, marked_answers, pinned


def test_ten_exercises_of_every_kind_keep_all_their_numbers_and_sentences() -> None:
    kept = pinned()["exercises"]
    assert [one["id"] for one in kept] == [f"{kind}/{seed}" for kind in KINDS for seed in SEEDS]
    assert list(drawn_documents()) == kept


def test_answers_keep_their_marks() -> None:
    assert list(marked_answers()) == pinned()["marks"]
