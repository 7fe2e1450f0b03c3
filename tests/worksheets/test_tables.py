"""Tables: aligned, within 80 columns, and escaped in HTML."""

import pytest

from manyheads.worksheets.arithmetic import NEGATIVE_INFINITY
from manyheads.worksheets.display import decimal_text, fraction_text, full_text, given_text, rounded
from manyheads.worksheets.numbers import parse_number
from manyheads.worksheets.tables import (
    Table,
    cell_width,
    html_from_tables,
    shortened,
    text_from_table,
    wrapped,
)


def test_numbers_stand_with_their_points_in_line() -> None:
    table = Table(title="T", columns=("", "a"), rows=(("x", "1"), ("long", "-0.25"), ("y", "1/3")))
    assert text_from_table(table).split("\n") == [
        "T",
        "            a",
        "  ----  -----",
        "  x      1",
        "  long  -0.25",
        "  y       1/3",
    ]


def test_wide_table_goes_on_below_with_its_names() -> None:
    columns = tuple(f"column {i}" for i in range(20))
    table = Table(title="T", columns=("", *columns), rows=(("row", *columns),))
    lines = text_from_table(table).split("\n")
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("  row") for line in lines) == 3
    assert [c for line in lines if line.startswith("  row") for c in line.split()[2::2]] == [
        str(i) for i in range(20)
    ]


def test_wide_letters_count_twice_and_long_texts_are_cut() -> None:
    assert cell_width("\N{CJK UNIFIED IDEOGRAPH-6F22}a") == 3
    assert shortened("abcdefgh", 6) == "abcd.."
    assert cell_width(shortened("\N{CJK UNIFIED IDEOGRAPH-6F22}" * 9, 6)) <= 6


def test_no_break_spaces_hold_words_together() -> None:
    lines = wrapped("word " * 15 + "aa\N{NO-BREAK SPACE}x\N{NO-BREAK SPACE}bb")
    assert lines[-1].strip() == "aa x bb"


def test_html_escapes_every_text() -> None:
    table = Table(title="<t>", columns=("<c>", "&"), rows=(("<r>", '"'),))
    html = html_from_tables("<h>", ["<l>"], [table])
    for letter in "tcrhl":
        assert f"&lt;{letter}&gt;" in html
    assert "<r>" not in html and "&amp;" in html and "&quot;" in html


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
