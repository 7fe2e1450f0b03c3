"""Printed exercises: the questions on the sheet, the engine's answers in the key alone."""

import pytest

from manyheads.learn.exercises import KINDS, Exercise, exercise
from manyheads.report.paper import pdf_from_sheets
from manyheads.report.paper_exercises import on_paper_text, sheets_from_exercises
from manyheads.worksheets.arithmetic import float_of
from tests.report.reading_paper import Piece, assert_printed, opened, pieces


def printed(exercises: list[Exercise], is_key: bool) -> list[Piece]:
    return pieces(pdf_from_sheets(sheets_from_exercises(exercises, "seed 5"), is_key=is_key))


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_has_the_answer_working_and_mistakes_and_a_sheet_none_of_them(kind: str) -> None:
    item = exercise(kind, 5)
    blank, key = (printed([item], is_key) for is_key in (False, True))
    places = {(piece.page, piece.x, piece.y) for piece in blank}
    extra = [piece.text for piece in key if (piece.page, piece.x, piece.y) not in places]
    answers = [text for text in extra if text not in {"KEY", "Known mistakes:"}]
    for text, number in zip(answers, item.answer, strict=False):
        assert_printed(text, float_of(number))
    said = " ".join(piece.text for piece in key)
    assert said.count("Working:") == 1 and "Known mistakes:" in said
    sheet = " ".join(piece.text for piece in blank)
    assert item.title in sheet and "Working" not in sheet and "mistakes" not in sheet


def test_a_sheet_of_every_kind_says_how_it_is_made_again() -> None:
    items = [exercise(kind, 5) for kind in KINDS]
    data = pdf_from_sheets(sheets_from_exercises(items, "seed 5"), is_key=False)
    assert data == pdf_from_sheets(sheets_from_exercises(items, "seed 5"), is_key=False)
    texts = [piece.text for piece in pieces(data)]
    assert texts.count("seed 5 · to fill in") == len(opened(data).pages) > 3
    for number, item in enumerate(items, start=1):
        assert f"{number}  {item.title} ({item.id})" in texts


def test_hyphens_stay_and_signs_are_true() -> None:
    assert on_paper_text("a-b, -3 and 3*sqrt(2)") == "a-b, −3 and 3√2"
    assert on_paper_text("half-wide 4-2") == "half-wide 4-2"
