"""The museum shows every fault, with numbers that the examples give today."""

import pytest

from manyheads.faults import FAULT_KINDS
from tests.factories import annotations_unchecked
from tests.house.sources import ROOT
from tests.verify.test_grid import ROWS, measured
from tools.museum.examples import fault_examples
from tools.museum.pages import example_text, page
from tools.museum.showcase import SHEET, shown

PAGE = ROOT / "docs" / "museum.md"


def test_museum_has_an_exhibit_of_every_kind() -> None:
    text = PAGE.read_text(encoding="utf-8")
    heads = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert heads == list(FAULT_KINDS)
    assert len(heads) >= 30


@pytest.mark.parametrize("fault", ROWS)
def test_exhibit_of_the_page_is_what_is_measured(fault: str) -> None:
    measured(fault)
    with annotations_unchecked():
        assert example_text(fault_examples()[fault]) in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_museum_is_up_to_date() -> None:
    with annotations_unchecked():
        assert page() == PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("fault", FAULT_KINDS)
def test_numbers_before_and_after_differ(fault: str) -> None:
    with annotations_unchecked():
        is_on_sheet, numbers = shown(fault_examples()[fault])
    assert numbers.before != numbers.after
    unseen = {"grouped-order", "rotary-pairing", "rotary-not-a-rotation"}
    assert is_on_sheet == (fault not in unseen), f"{SHEET} has no groups and heads of width two"


def test_right_numbers_are_those_of_the_worksheet() -> None:
    _, numbers = shown(fault_examples()["scale"])
    assert numbers.before == "2.811, 3.075, 4.431, 0.186, -0.0146, 5.142"
