"""The museum shows every fault, with numbers that the exhibits give today."""

import pytest

from manyheads.faults import FAULT_KINDS
from manyheads.verify.exhibits import exhibits
from manyheads.verify.museum import exhibit_text, page, snippets
from manyheads.verify.showcase import SHEET, shown
from tests.factories import annotations_unchecked
from tests.house.sources import ROOT
from tests.verify.test_grid import SAMPLE, measured

PAGE = ROOT / "docs" / "museum.md"


def test_museum_has_an_exhibit_of_every_kind() -> None:
    text = PAGE.read_text(encoding="utf-8")
    heads = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert heads == list(FAULT_KINDS)
    assert len(heads) >= 30
    assert sorted(snippets()) == heads


@pytest.mark.parametrize("fault", SAMPLE)
def test_exhibit_of_the_page_is_what_is_measured(fault: str) -> None:
    measured(fault)
    with annotations_unchecked():
        assert exhibit_text(exhibits()[fault]) in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_museum_is_up_to_date() -> None:
    with annotations_unchecked():
        assert page() == PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("fault", FAULT_KINDS)
def test_numbers_before_and_after_differ(fault: str) -> None:
    with annotations_unchecked():
        is_on_sheet, numbers = shown(exhibits()[fault])
    assert numbers.before != numbers.after
    unseen = {"grouped-order", "rotary-pairing", "rotary-not-a-rotation"}
    assert is_on_sheet == (fault not in unseen), f"{SHEET} has no groups and heads of width two"


def test_right_numbers_are_those_of_the_worksheet() -> None:
    _, numbers = shown(exhibits()["scale"])
    assert numbers.before == "2.811, 3.075, 4.431, 0.186, -0.0146, 5.142"


@pytest.mark.parametrize("fault", FAULT_KINDS)
def test_wrong_and_right_lines_differ_and_are_short(fault: str) -> None:
    code = snippets()[fault]
    assert code["wrong"].strip() != code["right"].strip()
    assert all(len(text.strip().splitlines()) <= 4 for text in code.values())
