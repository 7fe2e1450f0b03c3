"""Number texts: read exactly, written exactly, and refused with a reason."""

import time
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Rational, log, sqrt

from manyheads.core.errors import WorksheetError
from manyheads.worksheets.arithmetic import add, exponential, float_of, multiply, square_root
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
        ("--1", Fraction(1)),
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
        ("2**3", r"has '\*' where a number"),
        ("pi", "has 'pi'"),
        ("nan", "has 'nan'"),
        ("1 2", "has '2' where the number should end"),
        ("(1", "open bracket"),
        ("ln(", "ends too early"),
        ("1" * 31, "more than 30 digits"),
        ("1e31", "power of ten beyond 30"),
        ("1e" + "9" * 90, "power of ten beyond 30"),
        ("1e30*10", "beyond 1e30"),
        ("(" * 50 + "1" + ")" * 49, "more than 20 brackets"),
        ("-" * 100, "more than 20 brackets"),
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
