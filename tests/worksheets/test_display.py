"""How numbers are shown: rounded floats, and exact numbers in four ways."""

import pytest

from manyheads.worksheets.arithmetic import NEGATIVE_INFINITY
from manyheads.worksheets.display import decimal_text, fraction_text, full_text, given_text, rounded
from manyheads.worksheets.numbers import parse_number


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-0.0, "0"), (2.0, "2"), (0.1234, "0.123"), (3.0048, "3.005"),
     (-1e-5, "-1.00e-05"), (1e7, "1.00e+07"), (0.99999, "1.000"),
     (float("-inf"), "-inf"), (float("inf"), "inf")],
)  # fmt: skip
def test_floats_are_rounded_to_read(value: float, text: str) -> None:
    assert rounded(value) == text


@pytest.mark.parametrize(
    ("number", "fraction", "given", "decimal", "full"),
    [
        ("26/7", "26/7", "26/7", "3.714", "26/7 = 3.7142857142857144"),
        ("0.25", "1/4", "0.25", "0.25", "1/4 = 0.25"),
        ("sqrt(2)", "sqrt(2)", "sqrt(2)", "1.414", "sqrt(2) = 1.4142135623730951"),
        ("1/300", "1/300", "1/300", "0.00333", "1/300 = 0.0033333333333333335"),
        ("5", "5", "5", "5", "5"),
    ],
)
def test_exact_numbers_are_shown_in_four_ways(
    number: str, fraction: str, given: str, decimal: str, full: str
) -> None:
    value = parse_number(number)
    shown = (fraction_text(value), given_text(value), decimal_text(value), full_text(value))
    assert shown == (fraction, given, decimal, full)
    assert full_text(NEGATIVE_INFINITY) == "-inf"
