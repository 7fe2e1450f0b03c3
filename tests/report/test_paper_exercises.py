"""Printed exercises: the questions on the sheet, the engine's answers in the key alone."""

import pytest

from manyheads.learn.exercises import KINDS, exercise
from manyheads.report.paper import pdf_from_sheets
from manyheads.report.paper_exercises import on_paper_text, sheets_from_exercises
from manyheads.worksheets.arithmetic import float_of
from tests.report.reading_paper import assert_printed, footers, opened, pieces, texts_of


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_has_the_answer_working_and_mistakes_and_a_sheet_none_of_them(kind: str) -> None:
    item = exercise(kind, 5)
    sheets = sheets_from_exercises([item], "seed 5")
    blank, key = (pdf_from_sheets(sheets, is_key=is_key) for is_key in (False, True))
    cells = [[piece.text for piece in pieces(of) if piece.tag == "TD"] for of in (blank, key)]
    answers = [new for old, new in zip(*cells, strict=True) if old != new]
    for text, number in zip(answers, item.answer, strict=True):
        assert_printed(text, float_of(number))
    said, sheet = (" ".join(texts_of(of)) for of in (key, blank))
    assert said.count("Working:") == 1 and "Known mistakes:" in said
    assert item.id in sheet and "Working" not in sheet and "mistakes" not in sheet


def test_a_sheet_of_every_kind_names_its_command_and_keeps_each_exercise_on_a_page() -> None:
    items = [exercise(kind, 5) for kind in KINDS]
    sheets = sheets_from_exercises(items, "seed 5")
    data = pdf_from_sheets(sheets, is_key=False)
    assert data == pdf_from_sheets(sheets, is_key=False)
    assert len(opened(data).pages) > 3
    assert all(foot.startswith("seed 5 · to fill in") for foot in footers(data))
    numbers = [piece.text.split()[0] for piece in pieces(data) if piece.tag == "H2"]
    assert numbers == [str(number) for number in range(1, len(items) + 1)]
    page = -1
    for piece in pieces(data):
        if piece.tag in ("H1", "H2"):
            page = piece.page
        assert piece.page in (page, -1), piece


def test_hyphens_stay_and_signs_are_true() -> None:
    assert on_paper_text("a-b, -3 and 3*sqrt(2)") == "a-b, −3 and 3√2"
    assert on_paper_text("half-wide 4-2") == "half-wide 4-2"
