"""Number texts: read exactly, written exactly, and refused with a reason."""

import time
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Rational, log, sqrt

from manyheads.core.errors import WorksheetError
from manyheads.worksheets.arithmetic import (
    Number,
    add,
    dot,
    exponential,
    float_of,
    is_exact,
    multiply,
    square_root,
)
from manyheads.worksheets.numbers import Literal, exact_text, parse_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1/7", Fraction(1, 7)),
        ("-0.25", Fraction(-1, 4)),
        ("1e-3", Fraction(1, 1000)),
        (Literal("0.1"), Fraction(1, 10)),
        (0.1, Fraction(1, 10)),
        (-3, Fraction(-3)),
        ("-sqrt(2)", -sqrt(2)),
        ("sqrt 2", sqrt(2)),
        ("sqrt(8/9)", Rational(2, 3) * sqrt(2)),
        ("sqrt(9/4)", Fraction(3, 2)),
        ("2*sqrt(2)", 2 * sqrt(2)),
        ("sqrt(2)/2", sqrt(2) / 2),
        ("1/sqrt(2)", sqrt(2) / 2),
        ("1/(1 + sqrt(2))", sqrt(2) - 1),
        ("ln(2)", log(2)),
        ("ln 2", log(2)),
        ("ln(1)", Fraction(0)),
        ("ln(4)", 2 * log(2)),
        ("ln(3/2)", log(3) - log(2)),
        ("1 + ln(2)", 1 + log(2)),
        ("sqrt(2)*ln(2)", sqrt(2) * log(2)),
        ("1 - -1", Fraction(2)),
        ("(1/3)/4", Fraction(1, 12)),
        ("1/2*3/4", Fraction(3, 8)),
        ("\N{MINUS SIGN}2", Fraction(-2)),
        ("2*(3-1)/(4)", Fraction(1)),
    ],
)
def test_number_is_read_exactly(text: object, value: object) -> None:
    number = parse_number(text)
    assert number == value
    assert type(number) is Fraction or not isinstance(value, Fraction)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "ends too early"),
        (" ", "ends too early"),
        ("1/0", "divides by zero"),
        ("1/(1-1)", "divides by zero"),
        ("1/ln(2)", "no short inverse"),
        ("ln(0)", "logarithm of a number that is not positive"),
        ("ln(-1)", "logarithm of a number that is not positive"),
        ("sqrt(-1)", "square root of a negative number"),
        ("ln(sqrt(2))", "use ln of a fraction"),
        ("log(2)", "use ln"),
        ("2^3", "cannot be read at character 2"),
        ("2**3", r"has '\*' instead of a number"),
        ("pi", "has 'pi'"),
        ("nan", "has 'nan'"),
        ("1 2", "has '2' where the number should end"),
        ("(1", "open bracket"),
        ("ln(", "ends too early"),
        ("1" * 31, "more than 30 digits"),
        ("1e31", "power of ten beyond 30"),
        ("1e" + "9" * 90, "power of ten beyond 30"),
        ("1e30*10", "beyond 1e30"),
        ("(" * 50 + "1" + ")" * 49, "more than 20 nested brackets"),
        ("--3", "two signs in a row"),
        ("1/3/4", "divides twice in a row"),
        ("1+" * 60 + "1", "longer than 100 characters"),
        ("(1+ln 2)*(1+ln 3)*(1+ln 5)*(1+ln 7)*(1+ln 11)*(1+ln 13)", "too many terms"),
        ("\N{ARABIC-INDIC DIGIT THREE}", "cannot be read at character 1"),
        ("1\0", "cannot be read"),
        (float("nan"), "has 'nan'"),
        (float("inf"), "has 'inf'"),
        (10**5000, "more than 30 digits"),
        (True, r"\(true\) must be a number"),
        (None, r"\(null\) must be a number"),
        ([1], r"\(a list\) must be a number"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, int) else None,
)
def test_what_is_no_number_is_refused_with_a_reason(value: object, reason: str) -> None:
    with pytest.raises(WorksheetError, match=rf"^W_O\[0\] .*{reason}"):
        parse_number(value, "W_O[0]")


fractions = st.fractions(min_value=-1000, max_value=1000, max_denominator=1000)
terms = st.tuples(
    fractions, st.sampled_from([1, 2, 3, 6, 7]), st.sampled_from([(), (2,), (3,), (2, 2), (2, 5)])
)


@given(st.lists(terms, max_size=4))
def test_exact_text_reads_back_as_the_same_number(parts: list[tuple[Fraction, int, tuple]]) -> None:
    number = Fraction(0)
    for coefficient, root, logs in parts:
        term = multiply(coefficient, square_root(Fraction(root)))
        for base in logs:
            term = multiply(term, parse_number(f"ln({base})"))
        number = add(number, term)
    text = exact_text(number)
    assert "log" not in text
    if len(text) <= 100:
        assert parse_number(text) == number


@given(st.text(max_size=30) | st.text("0123456789+-*/().e lnsqrt", max_size=40))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    try:
        number = parse_number(text)
    except WorksheetError:
        return
    assert abs(float_of(number)) <= 1e30


@pytest.mark.parametrize(
    "text",
    [
        "*".join(["(1+ln 2)"] * 11),
        "ln(" + "9" * 30 + ")",
        "sqrt(" + "7" * 30 + "/" + "3" * 30 + ")",
    ],
)
def test_no_number_takes_long(text: str) -> None:
    start = time.perf_counter()
    with suppress(WorksheetError):
        parse_number(text)
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("40/7", "40/7"),
        ("ln 2", "ln(2)"),
        ("2*ln(2)", "ln(4)"),
        ("-2*ln(2)", "-ln(4)"),
        ("ln(3)-ln(2)", "ln(3/2)"),
        ("ln(3)/2", "ln(3)/2"),
        ("ln(2)+1", "1 + ln(2)"),
        ("-sqrt(2)", "-sqrt(2)"),
        ("483*sqrt(2)/200", "483*sqrt(2)/200"),
        ("0", "0"),
    ],
)
def test_exact_text_is_written_as_a_person_would(text: str, written: str) -> None:
    assert exact_text(parse_number(text)) == written


def test_exact_text_of_an_inexact_number_is_an_error() -> None:
    with pytest.raises(TypeError, match="not exact"):
        exact_text(Decimal("0.1"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", Fraction(1)),
        ("ln(7)", Fraction(7)),
        ("-3*ln(2)", Fraction(1, 8)),
        ("ln(2)/2", sqrt(2)),
        ("-ln(3)/2 + ln(5)", 5 * sqrt(3) / 3),
    ],
)
def test_exponential_of_logarithms_is_exact(text: str, value: object) -> None:
    assert exponential(parse_number(text)) == value


def test_exponential_without_a_short_form_has_50_digits() -> None:
    e = "2.71828182845904523536028747135266249775724709369995957496696763"
    assert abs(exponential(Fraction(1)) - Decimal(e)) < Decimal("1e-55")
    root = exponential(parse_number("sqrt(2)"))
    assert str(root).startswith("4.1132503787829275171735818151403045024016639431511")


def test_sums_that_nearly_cancel_keep_their_digits() -> None:
    tiny = parse_number("sqrt(2) - 1.41421356237309504880168872421")
    assert float_of(tiny) == pytest.approx(-3.01921430328124623e-31, rel=1e-15)


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        ("0" * 70 + "1" * 30, "0" * 71 + "1" * 30),
        ("1" * 30, "1" * 31),
        ("1e30", "1e31"),
        ("1e-30", "1e-31"),
        ("1e30", "1e30 + 1"),
        ("-1e30", "-1e30 - 1"),
        ("(" * 20 + "1" + ")" * 20, "(" * 21 + "1" + ")" * 21),
        ("(1/1e30)/1e30", "((1/1e30)/1e30)/2"),
    ],
)
def test_limit_of_a_number_is_kept_on_both_sides(allowed: str, refused: str) -> None:
    parse_number(allowed.lstrip("0") if len(allowed) == 100 else allowed)
    with pytest.raises(WorksheetError):
        parse_number(refused)


def test_number_text_may_have_100_characters_and_no_more() -> None:
    assert parse_number("1" + " " * 97 + "+1") == 2
    with pytest.raises(WorksheetError, match="longer than 100 characters"):
        parse_number("1" + " " * 98 + "+1")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("3*ln(2)", "ln(8)"),
        ("19*ln(2)", "ln(524288)"),
        ("20*ln(2)", "20*ln(2)"),
        ("ln(1000000)", "ln(1000000)"),
        ("ln(1000001)", "ln(101) + ln(9901)"),
        ("-ln(1000000)", "-ln(1000000)"),
        ("-ln(1000001)", "-ln(101) - ln(9901)"),
    ],
)
def test_logarithms_are_joined_up_to_a_million(text: str, written: str) -> None:
    assert exact_text(parse_number(text)) == written


def test_fraction_becomes_a_decimal_beyond_2048_bits() -> None:
    longest = Fraction(2**2048 - 1)
    assert type(multiply(longest, Fraction(1))) is Fraction
    assert isinstance(add(longest, Fraction(1)), Decimal)
    assert type(multiply(Fraction(1), 1 / longest)) is Fraction
    assert isinstance(multiply(Fraction(1, 2), 1 / longest), Decimal)


PRIMES = [n for n in range(2, 200) if all(n % d for d in range(2, n))]


def test_sum_becomes_a_decimal_beyond_32_terms() -> None:
    total = Fraction(0)
    for prime in PRIMES[:32]:
        total = add(total, square_root(Fraction(prime)))
    assert is_exact(total)
    assert isinstance(add(total, square_root(Fraction(PRIMES[32]))), Decimal)


def test_product_of_sums_becomes_a_decimal_beyond_32_terms() -> None:
    def total(primes: list[int]) -> Number:
        return reduce(add, (square_root(Fraction(prime)) for prime in primes))

    assert is_exact(multiply(total(PRIMES[:4]), total(PRIMES[4:12])))
    assert isinstance(multiply(total(PRIMES[:3]), total(PRIMES[3:14])), Decimal)


def test_row_of_products_becomes_a_decimal_beyond_16_with_roots() -> None:
    root = square_root(Fraction(2))
    assert dot([root] * 16, [Fraction(1)] * 16) == 16 * root
    assert isinstance(dot([root] * 17, [Fraction(1)] * 17), Decimal)
    assert dot([Fraction(1)] * 99, [Fraction(1)] * 99) == 99


def test_power_of_a_logarithm_is_exact_up_to_1024_bits_and_halves() -> None:
    two = parse_number("ln(2)")
    assert exponential(multiply(Fraction(512), two)) == 2**512
    assert isinstance(exponential(multiply(Fraction(513), two)), Decimal)
    assert is_exact(exponential(multiply(Fraction(1, 2), two)))
    assert isinstance(exponential(multiply(Fraction(1, 3), two)), Decimal)
