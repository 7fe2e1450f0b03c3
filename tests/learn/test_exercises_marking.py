"""Answers are marked by the rule, misconceptions are named, and nobody is accused by chance."""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from benchmarks.misconceptions import BAR_ACCUSED, measured
from manyheads.learn.exercises import KINDS, exercise, mark
from manyheads.learn.exercises.form import Exercise, number_text, slip
from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.numbers import exact_text

drawn_once = cache(exercise)


def three() -> Exercise:
    """Answer 1/7, 2/7, 4/7, with two slips."""
    sevenths = [Fraction(n, 7) for n in (1, 2, 4)]
    return replace(
        drawn_once("weight-row", 1),
        asks=("a", "b", "c"),
        answer=tuple(sevenths),
        misconceptions=(
            slip("turned", sevenths[::-1], "That is turned."),
            slip("short", [Fraction(1, 3)] * 2, "That is short."),
            slip("near", [Fraction(1, 7), Fraction(2, 7), Fraction(1, 2)], "That is near."),
        ),
    )


def as_typed(number: object) -> str:
    """Exact where that is known, else as Python prints it."""
    return number_text(number).removeprefix("~")


@pytest.mark.parametrize("kind", KINDS)
def test_the_exact_answer_is_right_and_each_misconception_is_named(kind: str) -> None:
    drawn = drawn_once(kind, 3)
    assert mark(drawn, ", ".join(exact_text(number) for number in drawn.answer)).is_right
    for item in drawn.misconceptions:
        texts = [as_typed(number) for number in item.values]
        found = mark(drawn, "; ".join(texts))
        assert not found.is_right
        assert found.is_judged
        assert found.misconception == item
        assert item.says in found.says


@pytest.mark.parametrize(
    "typed",
    [
        "1/7 2/7 4/7",
        "0.143, 0.286, 0.571",
        "14.3% 28.6% 57.1%",
        "(1/7, 0.2857, 4/7)",
        "0.14285714285714285 0.2857142857142857 0.5714285714285714",
    ],
)
def test_right_answers(typed: str) -> None:
    found = mark(three(), typed)
    assert found.is_right
    assert found.says == "Right."
    assert found.misconceptions == ()


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("", "is empty"),
        ("1/7 2/7", "You typed 2 numbers; type 3: a, b, c."),
        ("1/7", "You typed 1 number; type 3: a"),
        ("0.14 0.29 0.57", "0.14 has too few digits: type 3 decimals or a fraction."),
        ("1/7 0.29 4/7", "0.29 has too few digits"),
        ("10^10^10 1 2", "cannot be read"),
        ("nan nan nan", "has 'nan'"),
    ],
)
def test_what_cannot_be_judged_is_neither_right_nor_a_mistake(typed: str, says: str) -> None:
    found = mark(three(), typed)
    assert not found.is_right
    assert not found.is_judged
    assert found.misconceptions == ()
    assert says in found.says
    assert "\n" not in found.says


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("1 2 3", "0 of 3 numbers are right"),
        ("1/7 2 3", "1 of 3 numbers is right"),
        ("1/7 2/7 3/7", "2 of 3 numbers are right"),
        ("0.14 1 1", "0 of 3 numbers are right"),  # two digits are not enough to be right
        (
            "4/7 2/7 2/7",
            "1 of 3 numbers is right",
        ),  # two of three numbers of a slip are no accusation
        ("0.142 0.285 0.571", "1 of 3 numbers is right"),  # cut off instead of rounded
        ("0.142857 0.285714 0.571422", "2 of 3 numbers are right"),
    ],
)
def test_an_unknown_mistake_is_never_guessed(typed: str, says: str) -> None:
    found = mark(three(), typed)
    assert found.is_judged
    assert found.misconceptions == ()
    assert found.says == (f"Not right: {says}, and no known mistake gives these numbers.")


def test_a_slip_with_fewer_numbers_than_asked_is_named() -> None:
    found = mark(three(), "0.333 0.333")
    assert found.misconception is not None
    assert found.misconception.name == "short"
    assert found.is_judged


def test_two_misconceptions_that_agree_are_named_together() -> None:
    values = [Fraction(4, 7), Fraction(2, 7), Fraction(1, 7)]
    both = replace(
        three(), misconceptions=(slip("a", values, "That is a."), slip("b", values, "That is b."))
    )
    found = mark(both, "0.571 0.286 0.143")
    assert found.misconception is None
    assert [item.name for item in found.misconceptions] == ["a", "b"]
    assert found.says == "Not right. That is a. Or: That is b."


def test_an_answer_that_is_right_is_never_a_misconception_too() -> None:
    near = replace(three(), misconceptions=(slip("same", three().answer, "That is it."),))
    assert mark(near, "1/7 2/7 4/7").misconceptions == ()


def test_the_precision_typed_decides_between_two_near_values() -> None:
    far = (Fraction(1, 3), Fraction(1, 3), Fraction(1000))
    close = (Fraction(1, 3), Fraction(1, 3), Fraction(1001))
    both = replace(
        three(), misconceptions=(slip("far", far, "Far."), slip("close", close, "Close."))
    )
    assert [m.name for m in mark(both, "0.333 0.333 1.00e3").misconceptions] == ["far", "close"]
    assert [m.name for m in mark(both, "0.333 0.333 1001").misconceptions] == ["close"]


def test_rounded_answers_of_every_kind_are_right() -> None:
    for kind in KINDS:
        drawn = drawn_once(kind, 3)
        typed = " ".join(f"{float_of(number):#.4g}" for number in drawn.answer if number)
        if all(drawn.answer) and max(map(float_of, drawn.answer)) < 1000:
            assert mark(drawn, typed).is_right, (drawn.id, typed)


def test_answer_text_names_each_number() -> None:
    assert three().answer_text() == "a = 1/7, b = 2/7, c = 4/7"


def test_scripted_mistakes_are_named_and_chance_numbers_are_not() -> None:
    found = measured(range(20_000, 20_002), rounds=1)
    assert set(found["kinds"]) == set(KINDS)
    assert found["named"] > 0.97
    assert not sum(row["misnamed"] for row in found["kinds"].values())
    assert found["accused"] < BAR_ACCUSED
    by_chance = ("whole numbers", "fractions", "decimals, 2 places", "decimals, 3 places")
    accused = sum(found["classes"][name][0] for name in by_chance)
    assert accused / sum(found["classes"][name][1] for name in by_chance) < 0.005
