"""What a learner types is read exactly, or refused in one line and at once."""

import time
from fractions import Fraction

import pytest

from manyheads.core.errors import LearnError
from manyheads.learn.typed import (
    MACHINE_DIGITS,
    MAX_NUMBERS,
    MAX_TEXT,
    how_close,
    is_right,
    typed_number,
    typed_numbers,
)
from manyheads.worksheets.arithmetic import Number, float_of
from manyheads.worksheets.numbers import parse_number

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1/2 1/3", [HALF, THIRD]),
        ("1/2, 1/3", [HALF, THIRD]),
        ("[1/2; 1/3]", [HALF, THIRD]),
        ("((1/2, 1/3))", [HALF, THIRD]),
        ("(1/2) (1/3)", [HALF, THIRD]),
        ("{1/2,1/3,}", [HALF, THIRD]),
        ("1 / 2  1/ 3", [HALF, THIRD]),
        ("0.5\t50%\n50 %", [HALF, HALF, HALF]),
        ("1 -2", [Fraction(1), Fraction(-2)]),
        ("1 - 2", [Fraction(-1)]),
        ("- 3, +4", [Fraction(-3), Fraction(4)]),
        ("\N{MINUS SIGN}3 \N{EN DASH}1/2", [Fraction(-3), -HALF]),
        ("1\N{FRACTION SLASH}2", [HALF]),
        ("(1+2)/6", [HALF]),
        ("1e2 .5", [Fraction(100), HALF]),
        ("33.3%", [Fraction(333, 1000)]),
    ],
)
def test_numbers_are_read(text: str, values: list[Fraction]) -> None:
    assert [typed.value for typed in typed_numbers(text)] == values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("ln 2 0", ["ln(2)", "0"]),
        ("ln(2), sqrt 2", ["ln(2)", "sqrt(2)"]),
        ("\N{SQUARE ROOT}2 3\N{SQUARE ROOT}2", ["sqrt(2)", "3*sqrt(2)"]),
        ("2ln2; 3*sqrt(2)/5; LN 3", ["2*ln(2)", "3*sqrt(2)/5", "ln(3)"]),
        ("-ln 2 -sqrt(2)", ["-ln(2)", "-sqrt(2)"]),
        ("3/sqrt(2) 1", ["3*sqrt(2)/2", "1"]),
    ],
)
def test_roots_and_logarithms_are_read(text: str, values: list[str]) -> None:
    assert [typed.value for typed in typed_numbers(text)] == [parse_number(v) for v in values]


@pytest.mark.parametrize(
    ("text", "value", "how"),
    [
        ("0.333", THIRD, "rounded"),
        ("0.3333333", THIRD, "rounded"),
        ("0.33", THIRD, "coarse"),
        ("0.334", THIRD, "other"),
        ("0.332", THIRD, "other"),
        ("33.3%", THIRD, "rounded"),
        ("33%", THIRD, "coarse"),
        ("1/3", THIRD, "same"),
        ("333/1000", THIRD, "other"),
        ("0.25", Fraction(1, 4), "same"),
        ("25%", Fraction(1, 4), "same"),
        ("0.0714", Fraction(1, 14), "rounded"),
        ("0.071", Fraction(1, 14), "rounded"),
        ("0.07", Fraction(1, 14), "coarse"),
        ("7.1%", Fraction(1, 14), "rounded"),
        ("714e-4", Fraction(1, 14), "rounded"),
        ("1e3", Fraction(1234), "coarse"),
        ("7.14e-2", Fraction(1, 14), "rounded"),
        ("0.312", Fraction(5, 16), "rounded"),
        ("0.313", Fraction(5, 16), "rounded"),
        ("1200", Fraction(1234), "other"),
        ("1.23e3", Fraction(1234), "rounded"),
        ("0.000", Fraction(0), "same"),
        ("0.000", Fraction(1, 10000), "coarse"),
        ("0.14285714285714285", Fraction(1, 7), "rounded"),
        ("2.220446049250313e-16", Fraction(0), "rounded"),
        ("0.142857142850", Fraction(1, 7), "other"),
        ("-0.667", Fraction(-2, 3), "rounded"),
        ("0.667", Fraction(-2, 3), "other"),
        ("0.693", parse_number("ln(2)"), "rounded"),
        ("1.414", parse_number("sqrt(2)"), "rounded"),
        ("sqrt(8)/2", parse_number("sqrt(2)"), "same"),
    ],
)
def test_a_decimal_stands_for_what_rounds_to_it(text: str, value: Fraction, how: str) -> None:
    (typed,) = typed_numbers(text)
    assert how_close(typed, value) == how


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "answer () is empty"),
        ("  ", "answer () is empty"),
        ("[]", "answer () is empty"),
        (",", "number 1 () is missing"),
        ("1,,2", "number 2 () is missing"),
        ("1, %", "number 2 (%) is missing"),
        ("nan", "has 'nan' instead of a number"),
        ("1, inf", "number 2 ('inf') has 'inf'"),
        ("10^10^10", "cannot be read at character 3"),
        ("10**10", "has '*' instead of a number"),
        ("1e999999999", "has a power of ten beyond 30"),
        ("1/0", "divides by zero"),
        ("ln 0", "logarithm of a number that is not positive"),
        ("sqrt(-1)", "square root of a negative number"),
        ("log 2", "use ln for the natural logarithm"),
        ("one half", "number 1 ('one')"),
        ("9" * 5000, "answer (5000 characters) is longer than 600"),
        ("9" * 100, "has more than 30 digits"),
        ("1/" + "3" * 31, "has more than 30 digits"),
        (" ".join("1" * 30), "answer (30 numbers) has more than 24"),
        ("(" * 90 + "1", "brackets"),
        ("1 2) 3", "should end"),
        ("\x00\x1b[2J", "cannot be read"),
        ("½", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line_at_once(text: str, says: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(LearnError) as caught:
        typed_numbers(text)
    assert time.perf_counter() - begun < 2
    message = str(caught.value)
    assert says in message
    assert message.isprintable() and len(message) < 250


@pytest.mark.parametrize(
    "text", ["*".join(["sqrt 7"] * 12), "+".join(["ln 997/991"] * 8), f"ln({'9' * 30}/{'7' * 29})"]
)
def test_long_sums_are_read_or_refused_at_once(text: str) -> None:
    begun = time.perf_counter()
    try:
        values = [float_of(typed.value) for typed in typed_numbers(text)]
        assert values
    except LearnError as error:
        assert str(error).isprintable()
    assert time.perf_counter() - begun < 2


def test_too_few_digits_are_no_answer_and_neither_right_nor_wrong() -> None:
    assert is_right("0.333", THIRD)
    assert not is_right("0.334", THIRD)
    with pytest.raises(LearnError, match=r"answer \(0.33\) has too few digits: give 3"):
        is_right(" 0.33 ", THIRD)


def how(text: str, value: Number) -> str:
    return how_close(typed_number(text), value)


def test_a_decimal_counts_up_to_half_a_unit_of_its_last_digit_and_not_beyond() -> None:
    half = Fraction(1, 2000)
    for sign in (-1, 1):
        assert how("0.500", Fraction(1, 2) + sign * half) == "rounded"
        assert how("0.500", Fraction(1, 2) + sign * (half + Fraction(1, 10**30))) == "other"


def test_three_digits_or_three_decimals_are_enough_and_fewer_are_not() -> None:
    assert how("3.71", Fraction(3712, 1000)) == "rounded"
    assert how("3.7", Fraction(3712, 1000)) == "coarse"
    assert how("0.008", Fraction(81, 10**4)) == "rounded"
    assert how("0.01", Fraction(81, 10**4)) == "coarse"


def test_a_machine_s_number_may_be_off_by_its_rounding_and_a_shorter_one_may_not() -> None:
    twelve, eleven = "0.333333333334", "0.33333333334"
    assert (MACHINE_DIGITS, len(twelve) - 2, len(eleven) - 2) == (12, 12, 11)
    assert how(twelve, THIRD) == "rounded" and how(eleven, THIRD) == "other"
    assert how("0.333333333336", THIRD) == "other"


def test_an_answer_may_have_as_many_characters_and_numbers_as_the_limits() -> None:
    assert len(typed_numbers(" ".join("1" * MAX_NUMBERS))) == MAX_NUMBERS
    with pytest.raises(LearnError, match=rf"has more than {MAX_NUMBERS}"):
        typed_numbers(" ".join("1" * (MAX_NUMBERS + 1)))
    assert len(typed_numbers("1" + " " * (MAX_TEXT - 1))) == 1
    with pytest.raises(LearnError, match=rf"is longer than {MAX_TEXT}"):
        typed_numbers("1" + " " * MAX_TEXT)
