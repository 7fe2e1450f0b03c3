"""Printed worksheets: a key says what the engine says, a blank sheet says none of it."""

import os
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import pytest

from manyheads.core.errors import LearnError, WorksheetError
from manyheads.report.paper import SIZES, Sheets, Words, on_paper, pdf_from_sheets
from manyheads.report.paper_worksheet import answer_text, sheets_from_worksheet
from manyheads.worksheets.library import Worksheet, worksheet, worksheet_names
from tests.report.reading_paper import (
    assert_no_overlap,
    assert_printed,
    filled_in,
    footers,
    number_of,
    opened,
    texts_of,
)
from tests.worksheets.samples import full_document

CASES = [
    ("two-routes", None, 3),
    ("two-routes", None, 1),
    ("three-heads", None, 4),
    ("three-heads", None, 2),
    ("river-and-cheque", "river", 10),
    ("river-and-cheque", "cheque", 6),
]


@cache
def printed(sheets: Sheets, size: str = "a4") -> tuple[bytes, bytes]:
    """The blank sheet and its key."""
    blank = pdf_from_sheets(sheets, is_key=False, size=size)
    return blank, pdf_from_sheets(sheets, is_key=True, size=size)


def plain_sheets(text: str) -> Sheets:
    """A document of one paragraph."""
    return Sheets(title="T", label="", parts=(Words(text=text),))


def expected_numbers(sheet: Worksheet, sequence: str | None, receiver: int) -> Iterator[float]:
    """Every answer in the order of the sheet, from the packed form in float64."""
    solution = sheet.solve(sequence).at(receiver)
    rows = sheet.sequence(sequence)
    if rows.token_keys is not None:
        yield from sheet.solve(sequence)["x"].ravel()
    for h in range(sheet.num_heads):
        yield from solution["q"][h]
        for k, v in zip(solution["k"][h], solution["v"][h], strict=True):
            yield from (*k, *v)
        fields = ["dots", "scores", "exp_scores", "attn_weights"]
        fields[2:2] = ["masked_scores"] if sheet.is_causal else []
        for source in range(len(rows.tokens)):
            yield from (solution[field][h][source] for field in fields)
        yield solution["exp_sum"][h]
        yield from solution["head_outputs"][h]
    yield from solution["concat"]
    yield from solution["head_contributions"].ravel()
    yield from solution["output"]
    if sheet.has_residual:
        yield from (solution["x"] if rows.token_keys is not None else ())
        yield from solution["updated"]
    if sheet.prediction is not None:
        yield from (*solution["hidden_pre"], *solution["hidden"])
        for pair in zip(solution["logits"], solution["probabilities"], strict=True):
            yield from pair


def check_key(sheet: Worksheet, sequence: str | None, receiver: int, size: str = "a4") -> None:
    found = filled_in(*printed(sheets_from_worksheet(sheet, sequence, receiver), size))
    if sheet.prediction is not None:
        solution = sheet.solve(sequence).at(receiver)
        assert found.pop() == sheet.vocabulary[int(solution["probabilities"].argmax())]
    expected = list(expected_numbers(sheet, sequence, receiver))
    assert len(found) == len(expected) > 20
    for text, value in zip(found, expected, strict=True):
        assert_printed(text, float(value))


@pytest.mark.parametrize(("name", "sequence", "receiver"), CASES)
def test_a_key_says_every_number_of_the_engine_and_a_blank_sheet_none(
    name: str, sequence: str | None, receiver: int
) -> None:
    check_key(worksheet(name), sequence, receiver)


def test_every_optional_part_is_printed() -> None:
    check_key(Worksheet.from_document(full_document()), None, 1, "letter")


def test_a_key_follows_an_edit() -> None:
    edits = {"heads[0].W_Q[0][0]": "1/2", "heads[1].W_V[2][0]": "7"}
    sheet = worksheet("two-routes").edit(edits)
    check_key(sheet, None, 3)
    said = [f"{place} = {value}" for place, value in edits.items()]
    blank, _ = printed(sheets_from_worksheet(sheet, None, 3, said))
    assert any(
        text.startswith("Changed from") and "heads[0].W_Q[0][0]" in text for text in texts_of(blank)
    )


def test_a_wrong_number_in_a_key_is_found() -> None:
    assert_printed("3√2/5", 3 * 2**0.5 / 5)
    assert_printed("0.718", 0.7184)
    for text, value in (
        ("0.718", 0.7195),
        ("26/7", 3.7),
        ("−∞", -1e30),
        ("1.25e-05", 1.24e-05 * 2),
    ):
        with pytest.raises(AssertionError, match="the engine"):
            assert_printed(text, value)


def test_what_a_blank_sheet_says_does_not_depend_on_the_answers() -> None:
    sheets = sheets_from_worksheet(worksheet("two-routes"))
    answers = {text for text in filled_in(*printed(sheets)) if "/" in text or "(" in text}
    assert "26/7" in answers and "−ln(2)" in answers
    given = {"ln(2)", "ln(4)"}
    blank = set(texts_of(printed(sheets)[0]))
    assert not blank & (answers - given)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", worksheet_names())
def test_nothing_overlaps_or_leaves_the_page(name: str, size: str) -> None:
    sheets = sheets_from_worksheet(worksheet(name))
    for data in printed(sheets, size):
        assert_no_overlap(data)


def large_document() -> dict[str, Any]:
    """Wider and longer than a page: D=14, T=31, two heads, long names."""
    rows = [[(3 * i + 5 * j) % 7 - 3 for j in range(14)] for i in range(31)]
    weights = [[(i + 2 * j) % 3 - 1 for j in range(9)] for i in range(14)]
    head = {"label": "a head with a name", "W_Q": weights, "W_K": weights, "W_V": weights}
    return {
        "name": "large",
        "title": "A worksheet whose title takes more than one line of the paper, as this does",
        "is_causal": True,
        "scale": "1/50",
        "features": [f"a long name of feature {i}" for i in range(14)],
        "sequences": {"main": {"tokens": [f"Überlänge{i}" for i in range(31)], "X": rows}},
        "heads": [head, head],
        "W_O": [[(i * j) % 3 - 1 for j in range(14)] for i in range(18)],
    }


@pytest.mark.slow
def test_a_large_worksheet_goes_on_over_pages_and_stays_whole() -> None:
    sheet = Worksheet.from_document(large_document())
    blank, key = printed(sheets_from_worksheet(sheet, None, 30))
    found = sorted(filled_in(blank, key), key=number_of)  # a wide step is split by its columns
    expected = sorted(map(float, expected_numbers(sheet, None, 30)))
    for text, value in zip(found, expected, strict=True):
        assert_printed(text, value)
    assert len(opened(blank).pages) == len(opened(key).pages) > 8
    assert any(text.endswith("(continued)") for text in texts_of(blank))
    assert f"Page 1 of {len(opened(blank).pages)}" in footers(blank)[0]
    assert_no_overlap(key)


def test_text_is_real_fonts_are_embedded_and_headings_are_bookmarks() -> None:
    blank, _ = printed(sheets_from_worksheet(worksheet("three-heads")))
    reader = opened(blank)
    for font in reader.pages[0]["/Resources"]["/Font"].values():  # type: ignore[index]
        below = font.get_object()["/DescendantFonts"][0].get_object()
        assert {"/FontFile2", "/FontFile3"} & set(below["/FontDescriptor"].get_object())
        assert "/ToUnicode" in font.get_object()
    titles = [entry.title for part in reader.outline for entry in _entries(part)]
    title = worksheet("three-heads").title
    heads = ["Head 1, r squared", "Head 2, one over r", "Head 3, s"]
    assert titles == [title, "Given", *heads, "Output"]
    assert reader.metadata and reader.metadata.title == f"{title} (to fill in)"


def _entries(part: Any) -> Iterator[Any]:
    for entry in part if isinstance(part, list) else [part]:
        yield from _entries(entry) if isinstance(entry, list) else [entry]


def test_a_sheet_is_accessible() -> None:
    root = opened(printed(sheets_from_worksheet(worksheet("two-routes")))[0]).trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"] and root["/Lang"] == "en"  # type: ignore[index]
    assert b"pdfuaid:part" in root["/Metadata"].get_object().get_data()  # type: ignore[index]


def test_the_same_sheet_has_the_same_bytes() -> None:
    sheets = sheets_from_worksheet(worksheet("two-routes"))
    first, second = (pdf_from_sheets(sheets, is_key=True) for _ in range(2))
    assert first == second
    facts = opened(first).metadata
    assert facts and facts.creation_date and facts.creation_date.timestamp() == 0


@pytest.mark.parametrize(
    ("token", "said"),
    [("日本", r"日 \(U\+65E5, cjk unified"), ("🙂", r"U\+1F642"), ("a\x01", r"\(U\+0001, no name")],
)
def test_a_character_that_cannot_be_printed_is_named(token: str, said: str) -> None:
    with pytest.raises(LearnError, match=said):
        printed(plain_sheets(f"a {token}"))


def test_accents_other_alphabets_and_writing_from_the_right_are_printed() -> None:
    text = "Straße e\u0301te\u0301 Ω ж \u05e9\u05dc \u0633\u0644"
    blank, _ = printed(plain_sheets(text))
    letters = texts_of(blank)[-1]
    assert letters.startswith("Straße été Ω ж ")
    assert {"\u05e9", "\u05dc", "\u0633", "\u0644"} <= set(letters)


def test_markup_in_a_text_is_only_text() -> None:
    text = "#panic() $x$ [a] *b* \\ // <c> @d `e` https://example.org"
    sheets = Sheets(title="= T", label="_l_", parts=(Words(text=text),))
    data = pdf_from_sheets(sheets, is_key=False)
    assert texts_of(data)[-2:] == ["= T", text]
    assert footers(data)[0].startswith("_l_ · to fill in")


def test_a_font_of_the_user_prints_what_the_own_ones_lack(tmp_path: Path) -> None:
    from fontTools.ttLib import TTFont

    sheets = plain_sheets("\u732b")
    with pytest.raises(LearnError, match=r"U\+732B"):
        pdf_from_sheets(sheets, is_key=False)
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    with TTFont(folder / "STIXGeneral.ttf") as font:
        for table in font["cmap"].tables:
            table.cmap[0x732B] = table.cmap[ord("A")]
        font.save(tmp_path / "a font.ttf")
    data = pdf_from_sheets(sheets, is_key=False, font=tmp_path / "a font.ttf")
    assert texts_of(data)[-1] == "\u732b"


def test_a_file_that_is_no_font_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.ttf").write_bytes(b"no font")
    os.mkfifo(tmp_path / "pipe.ttf")
    sheets = sheets_from_worksheet(worksheet("two-routes"))
    reasons = {"no.ttf": "no font file", "pipe.ttf": "no font file", "absent.ttf": "no such file"}
    for name, reason in reasons.items():
        with pytest.raises(LearnError, match=rf"font \('.*{name}'\) cannot be read \({reason}\)"):
            pdf_from_sheets(sheets, is_key=False, font=tmp_path / name)


def test_a_sentence_receiver_or_paper_that_does_not_exist_is_refused() -> None:
    sheet = worksheet("two-routes")
    with pytest.raises(WorksheetError, match=r"receiver \(4\) must be 1 to 3"):
        sheets_from_worksheet(sheet, None, 4)
    with pytest.raises(WorksheetError, match=r"sequence \(other\)"):
        sheets_from_worksheet(sheet, "other")
    with pytest.raises(LearnError, match=r"paper \('a3'\) must be a4 or letter"):
        pdf_from_sheets(sheets_from_worksheet(sheet), is_key=True, size="a3")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3*sqrt(2)/5", "3√2/5"),
        ("-sqrt(2)*ln(3)", "−√2·ln(3)"),
        ("-inf", "−∞"),
        ("1.20e-05", "1.20e-05"),
        ("1 - 2/3", "1 − 2/3"),
    ],
)
def test_a_number_on_paper_reads_back(text: str, said: str) -> None:
    assert on_paper(text) == said
    if text != "1 - 2/3" and text != "-inf":
        assert number_of(said) == pytest.approx(number_of(text.replace("*", "·")))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Fraction(4115, 2263), "4115/2263"),
        (Fraction(12345, 6788), "1.819"),
        (Fraction(10**12), "1000000000000"),
        (Decimal("1e-39"), "1.00e-39"),
        (Decimal("1e-41"), "0.000"),
        (Decimal("1e309"), "1.00e+309"),
    ],
)
def test_an_answer_is_exact_up_to_nine_characters_and_rounded_beyond(
    number: Fraction | Decimal, text: str
) -> None:
    assert answer_text(number) == text
