"""The judge is judged: every fault is caught, and the page says by what."""

import re
from functools import cache
from pathlib import Path

import pytest

from manyheads.faults import FAULT_KINDS
from tests.factories import annotations_unchecked, mostly_slow
from tests.house.sources import ROOT
from tools.museum.examples import fault_examples
from tools.museum.grid import CHECKS, Row, caught_by, page, row_of
from tools.museum.module import subject_named
from tools.museum.own import sound_module
from tools.museum.popular import POPULAR, passes

PAGE = ROOT / "docs" / "fault-grid.md"
SAMPLE = (
    "attends-over-heads", "batch-first-confusion", "cache-position", "dropout-in-eval",
    "fully-masked-row", "gradient-cut", "low-precision", "mask-after-softmax", "rotary-pairing",
    "shape-at-size-one", "softmax-axis", "value-projection-unused",
)  # fmt: skip


ROWS = mostly_slow(SAMPLE, *SAMPLE[1::2])


@cache
def measured(fault: str) -> Row:
    with annotations_unchecked():  # thousands of small calls
        return row_of(fault)


def tables(path: Path = PAGE) -> list[dict[str, list[str]]]:
    """Cells of each table of the page by the fault of the row."""
    found: list[dict[str, list[str]]] = [{}]
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            found[-1][name.strip("`")] = cells
        elif found[-1]:
            found.append({})
    return [table for table in found if table]


def printed_checks(fault: str) -> tuple[str, ...]:
    return tuple(t for t, mark in zip(CHECKS, tables()[0][fault], strict=True) if mark)


def printed_popular(fault: str, mark: str) -> tuple[str, ...]:
    return tuple(n for n, cell in zip(POPULAR, tables()[1][fault], strict=True) if cell == mark)


def test_page_has_a_row_for_every_fault_in_both_tables() -> None:
    assert [list(table) for table in tables()] == [list(FAULT_KINDS)] * 2


def test_every_fault_is_caught_by_a_check() -> None:
    open_faults = [fault for fault in FAULT_KINDS if not printed_checks(fault)]
    assert open_faults == ["mask-value-in-half"]  # a limit of correct code, listed as such


@pytest.mark.parametrize("fault", ROWS)
def test_row_of_the_page_is_what_is_measured(fault: str) -> None:
    row = measured(fault)
    assert row.caught == printed_checks(fault)
    assert row.let_through == printed_popular(fault, "passes")
    assert row.not_asked == printed_popular(fault, "–")


@pytest.mark.slow
def test_page_is_up_to_date() -> None:
    with annotations_unchecked():
        assert page() == PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", POPULAR)
def test_totals_count_the_rows(name: str) -> None:
    head = next(
        line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| **all")
    )
    through, asked = map(int, re.findall(r"(\d+) of (\d+)", head)[POPULAR.index(name)])
    assert through == sum(name in printed_popular(fault, "passes") for fault in FAULT_KINDS)
    assert asked == sum(name not in printed_popular(fault, "–") for fault in FAULT_KINDS)
    assert through > asked / 2  # popular, and content with most


@pytest.mark.parametrize("kind", ["self", "padding", "grouped", "rotary cache", "dropout"])
def test_sound_module_is_caught_by_no_check(kind: str) -> None:
    subject = subject_named(kind)
    with annotations_unchecked():
        assert caught_by(sound_module(subject), subject) == ()


@pytest.mark.parametrize("name", POPULAR)
def test_each_popular_test_notices_some_fault_but_shape_only(name: str) -> None:
    notices = any(passes(name, fault_examples()[fault]) is False for fault in SAMPLE)
    assert notices == (name != "shape only")
