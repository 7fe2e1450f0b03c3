"""How numbers are shown: rounded floats, and exact numbers in four ways."""

from decimal import Decimal

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


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0005, "0.001"), (0.000499, "4.99e-04"), (0.001, "0.001"), (-0.001, "-0.001"),
     (999999.5, "999999.500"), (999999.0, "999999"), (1e6, "1.00e+06"),
     (3.0001, "3.000"), (float("nan"), "nan")],
)  # fmt: skip
def test_rounded_changes_its_form_at_its_limits(value: float, text: str) -> None:
    assert rounded(value) == text


@pytest.mark.parametrize(
    ("number", "limit", "text"),
    [("1234567/89012345", 16, "1234567/89012345"), ("1234567/890123457", 16, "0.001"),
     ("12345/6788", 10, "12345/6788"), ("12345/67891", 10, "0.182")],
)  # fmt: skip
def test_exact_text_is_replaced_from_its_longest_length(number: str, limit: int, text: str) -> None:
    assert fraction_text(parse_number(number), limit) == text
    assert limit != 16 or fraction_text(parse_number(number)) == text


@pytest.mark.parametrize(
    ("number", "given", "decimal"),
    [
        ("1/10000", "0.0001", "0.0001"),
        ("1/20000", "1/20000", "5.00e-05"),
        ("999999999 + 1/2", "999999999.5", "999999999.5"),
        ("1000000000 + 1/2", "1.00e+09", "1.00e+09"),
        ("1/9999", "1/9999", "0.0001"),
        ("1/10001", "1/10001", "1.00e-04"),
        ("199/2001", "199/2001", "0.0995"),
        ("200/2009", "200/2009", "0.100"),
        ("-199/2001", "-199/2001", "-0.0995"),
    ],
)
def test_decimals_change_their_form_at_their_limits(number: str, given: str, decimal: str) -> None:
    value = parse_number(number)
    assert (given_text(value), decimal_text(value)) == (given, decimal)


def test_decimals_of_a_number_that_is_not_exact_change_their_form_at_the_same_limits() -> None:
    shown = {"0.0001": "0.0001", "0.000099": "9.90e-05", "0.0994": "0.0994", "0.0995": "0.100"}
    assert {text: decimal_text(Decimal(text)) for text in shown} == shown


def test_full_text_leaves_out_exact_text_of_more_than_60_characters() -> None:
    longest = parse_number("1/" + "7" * 29) * parse_number("1/" + "3" * 29)
    assert len(f"1/{longest.denominator}") == 60
    assert full_text(longest).startswith(f"1/{longest.denominator} = ")
    longer = longest / 10
    assert full_text(longer) == repr(float(longer))
