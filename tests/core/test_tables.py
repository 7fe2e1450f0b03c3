"""Tables: aligned, within 80 columns, and escaped in HTML and Markdown."""

import pytest
from rich.cells import cell_len

from manyheads.core.tables import (
    Table,
    html_from_table,
    html_from_tables,
    markdown_from_table,
    shortened,
    text_from_table,
    wrapped,
)


def test_decimal_points_are_aligned() -> None:
    table = Table(title="T", columns=("", "a"), rows=(("x", "1"), ("long", "-0.25"), ("y", "1/3")))
    assert text_from_table(table).split("\n") == [
        "T",
        "            a",
        "  ----  -----",
        "  x      1",
        "  long  -0.25",
        "  y       1/3",
    ]


def test_wide_table_is_split_and_repeats_its_row_names() -> None:
    columns = tuple(f"column {i}" for i in range(20))
    table = Table(title="T", columns=("", *columns), rows=(("row", *columns),))
    lines = text_from_table(table).split("\n")
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("  row") for line in lines) == 3
    assert [c for line in lines if line.startswith("  row") for c in line.split()[2::2]] == [
        str(i) for i in range(20)
    ]


@pytest.mark.parametrize(("width", "longest"), [(36, 80), (37, 42)])
def test_table_of_80_columns_is_not_split_and_one_of_81_is(width: int, longest: int) -> None:
    table = Table(title="T", columns=("", "a", "b"), rows=(("r", "a" * 37, "b" * width),))
    assert max(map(len, text_from_table(table).split("\n"))) == longest


def test_wide_letters_count_twice_and_long_texts_are_cut() -> None:
    assert cell_len("\N{CJK UNIFIED IDEOGRAPH-6F22}a") == 3
    assert shortened("abcdefgh", 6) == "abcd.."
    assert (shortened("abcdef", 6), shortened("abcdefg", 6)) == ("abcdef", "abcd..")
    assert cell_len(shortened("\N{CJK UNIFIED IDEOGRAPH-6F22}" * 9, 6)) <= 6


def test_no_break_spaces_hold_words_together() -> None:
    lines = wrapped("word " * 15 + "aa\N{NO-BREAK SPACE}x\N{NO-BREAK SPACE}bb")
    assert lines[-1].strip() == "aa x bb"


def test_html_escapes_every_text() -> None:
    table = Table(title="<t>", columns=("<c>", "&"), rows=(("<r>", '"'),))
    html = html_from_tables("<h>", ["<l>"], [table])
    for letter in "tcrhl":
        assert f"&lt;{letter}&gt;" in html
    assert "<r>" not in html and "&amp;" in html and "&quot;" in html


def test_html_marks_number_columns_and_row_names() -> None:
    table = Table(
        title="T", columns=("a", "b", "c"), rows=(("x", "1.5 ± 0.2", "y"), ("z", "-", "1"))
    )
    assert table.is_numeric == (False, True, False)
    assert html_from_table(table, has_caption=False) == (
        '<table><thead><tr><th scope="col">a</th><th scope="col" class="num">b</th>'
        '<th scope="col">c</th></tr></thead><tbody>'
        '<tr><th scope="row">x</th><td class="num">1.5 ± 0.2</td><td>y</td></tr>'
        '<tr><th scope="row">z</th><td class="num">-</td><td>1</td></tr></tbody></table>'
    )
    assert "<caption>T</caption>" in html_from_table(table)


def test_markdown_escapes_every_cell_and_aligns_numbers() -> None:
    table = Table(title="a*b", columns=("x|y", "n"), rows=(("<b>", "+1,000"),))
    assert markdown_from_table(table).split("\n") == [
        r"*a\*b*",
        "",
        r"| x\|y | n |",
        "| --- | ---: |",
        "| &lt;b> | +1,000 |".replace(">", r"\>"),
    ]


def test_table_without_rows_is_written_in_every_form() -> None:
    table = Table(title="T", columns=("a", "b"), rows=())
    assert text_from_table(table).split("\n") == ["T", "  a  b", "  -  -"]
    assert "<tbody></tbody>" in html_from_table(table)
    assert markdown_from_table(table).endswith("| ---: | ---: |")
