"""Typed numbers: exact ones are equal or wrong, decimals count when they are rounded right."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.errors import LearnError
from manyheads.learn.quiz import mark_numeric
from manyheads.worksheets.arithmetic import square_root

VALUE = Fraction(26, 7)  # 3.714285714...


@pytest.mark.parametrize(
    "typed",
    [
        "26/7",
        "52/14",
        "3+5/7",
        " 26 / 7 ",
        "3.71",
        "3.714",
        "3.71429",
        "3.714285714285714",
        "+3.71",
    ],
)
def test_right_answers(typed: str) -> None:
    assert mark_numeric(typed, VALUE).is_right


@pytest.mark.parametrize("typed", ["3.72", "3.7143000", "-3.71", "37.1", "25/7", "3715/1000", "4"])
def test_wrong_answers(typed: str) -> None:
    marked = mark_numeric(typed, VALUE)
    assert not marked.is_right
    assert "26/7 = 3.714" in marked.says


def test_two_digits_are_too_few_and_exact_decimals_are_not() -> None:
    assert mark_numeric("3.7", VALUE).says.startswith("Close, but too few digits")
    assert mark_numeric(".5", Fraction(1, 2)).is_right
    assert mark_numeric("0.0", Fraction(0)).is_right
    assert not mark_numeric("0.001", Fraction(0)).is_right


def test_digits_are_counted_without_leading_zeros_and_with_powers_of_ten() -> None:
    small = Fraction(1, 813)  # 0.00123001...
    assert mark_numeric("0.00123", small).is_right
    assert mark_numeric("1.23e-3", small).is_right
    assert mark_numeric("0.0012", small).is_right
    assert not mark_numeric("1.2e-3", Fraction(1234)).is_right
    assert mark_numeric("\N{MINUS SIGN}0.00123", -small).is_right


def test_roots_may_be_typed_as_roots_or_decimals() -> None:
    value = square_root(Fraction(1, 2))
    for typed in ("sqrt(2)/2", "1/sqrt(2)", "sqrt(1/2)", "0.707", "0.7071"):
        assert mark_numeric(typed, value).is_right, typed
    assert not mark_numeric("0.708", value).is_right


def test_a_number_that_is_known_in_decimals_only_is_marked_too() -> None:
    value = Decimal("0.71764421062884636")
    assert mark_numeric("0.718", value).is_right
    assert not mark_numeric("0.717", value).is_right
    assert not mark_numeric("5/7", value).is_right


@given(st.fractions(-1000, 1000, max_denominator=10**6), st.integers(3, 9))
def test_every_value_rounded_to_three_digits_or_more_counts(value: Fraction, digits: int) -> None:
    typed = f"{float(value):.{digits - 1}e}"
    assert mark_numeric(typed, value).is_right, (typed, value)
    step = Decimal(1).scaleb(Decimal(typed).adjusted() - digits + 1) if value else Decimal("0.01")
    neighbour = f"{Decimal(typed) + 2 * step:.{digits - 1}e}"
    assert not mark_numeric(neighbour, value).is_right, (neighbour, value)


@pytest.mark.parametrize(
    "typed",
    ["", "  ", "1/0", "x", "nan", "inf", "1e999", "9" * 10_000, "\x1b[31m", "1,5", "(" * 9],
)
def test_what_is_no_number_is_refused_in_one_printable_line(typed: str) -> None:
    with pytest.raises(LearnError) as caught:
        mark_numeric(typed, VALUE)
    assert str(caught.value).startswith("answer (")
    assert str(caught.value).isprintable() and len(str(caught.value)) < 200
