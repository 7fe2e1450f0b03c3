"""Assertions of the lab: each says what was printed, what was expected, and by whom."""

from fractions import Fraction
from math import inf, nan

import pytest
from sympy import log

from manyheads.learn.lab.record import AtMost, Equals, gap_text, plain_text

SEVENTHS = Equals(source="fractions", numbers=(Fraction(26, 7), Fraction(2)), length=8)


def test_numbers_within_rounding_pass() -> None:
    assert SEVENTHS.failure((26 / 7, 2.0), ("a", "b")) is None


@pytest.mark.parametrize("wrong", [26 / 7 + 1e-12, nan, inf, -26 / 7, 0])
def test_a_wrong_number_is_named_with_both_values(wrong: float) -> None:
    said = SEVENTHS.failure((wrong, 2.0), ("value 1", "value 2"))
    assert said is not None
    assert said.startswith("value 1: printed ")
    assert said.endswith("expected 26/7 (3.7142857142857144) (fractions)")


def test_every_wrong_number_of_a_row_is_named() -> None:
    said = SEVENTHS.failure((1.5, 2.5), ("value 1", "value 2"))
    assert said is not None
    assert "value 1: printed 1.5," in said
    assert "value 2: printed 2.5, expected 2 (2)" in said


def test_a_missing_number_is_a_failure() -> None:
    said = SEVENTHS.failure((26 / 7,), ("value 1", "value 2"))
    assert said == "printed 1 numbers, expected 2 (fractions)"


def test_length_zero_asks_for_equality() -> None:
    exactly = Equals(source="by hand", numbers=(0.0,))
    assert exactly.failure((0.0,), ()) is None
    assert exactly.failure((1e-300,), ()) == "printed 1e-300, expected 0 (by hand)".replace(
        "1e-300", f"{1e-300:.17g}"
    )


@pytest.mark.parametrize("wrong", [(2, 4), (4, 2, 1), 8, 8.0])
def test_a_wrong_shape_is_named(wrong: tuple[int, ...] | float) -> None:
    shape = Equals(source="worksheet", numbers=((4, 2),))
    said = shape.failure((wrong,), ("W_Q",))
    assert said is not None
    assert said.endswith("expected (4, 2) (worksheet)")


def test_the_right_shape_passes() -> None:
    assert Equals(source="worksheet", numbers=((4, 2),)).failure(((4, 2),), ("W_Q",)) is None


def test_counts_are_compared_exactly() -> None:
    count = Equals(source="by hand", numbers=(262_144,))
    assert count.failure((262_144,), ()) is None
    assert count.failure((262_145,), ()) == "printed 262,145, expected 262,144 (by hand)"


@pytest.mark.parametrize("wrong", [2e-12, nan, inf, -1e-20, (1, 2)])
def test_a_distance_beyond_its_limit_is_named(wrong: float | tuple[int, ...]) -> None:
    limit = AtMost(source="rounding", limit=1e-12)
    assert limit.failure((1e-12, 0.0), ("packed", "fused")) is None
    said = limit.failure((0.0, wrong), ("packed", "fused"))
    assert said is not None
    assert said.startswith("fused: printed ")
    assert said.endswith("expected at most 1.0e-12 (rounding)")


def test_exact_numbers_are_shown_beside_their_decimals() -> None:
    exact = Equals(source="fractions", numbers=(Fraction(26, 7), Fraction(2), 2 * log(2), 4))
    cells = (26 / 7, 2.0, 1.3862943611, 4)
    shown = [exact.shown(i, cell) for i, cell in enumerate(cells)]
    assert shown == ["26/7 3.714", "2", "ln(4) 1.386", "4"]


def test_plain_numbers_are_shown_readably() -> None:
    assert plain_text(1_048_576) == "1,048,576"
    assert plain_text((2, 2, 128, 128)) == "(2, 2, 128, 128)"
    assert plain_text(0.12345) == "0.123"
    assert [gap_text(gap) for gap in (0.0, 1.25e-15, 3)] == ["0", "1.2e-15", "3"]
