"""Every drawing of every view has a table with the same numbers."""

import re
from pathlib import Path

import pytest

from manyheads.worksheets.library import worksheet_names
from tests.web.browsing import GO, Visit, at_step, one_place_a_step
from tests.web.figure_tables import check_tables
from tests.web.test_story_page import frames_of
from tools.page.study import shipped_studies


def test_every_figure_of_the_story_has_its_table(visit: Visit, root: Path) -> None:
    visit.open("#story")
    texts = (root / "web" / "src" / "story" / "text").glob("*.md")
    used = sum(len(re.findall(r"\]\(figure:", text.read_text("utf-8"))) for text in texts)
    checked = 0
    for name in frames_of(root):
        visit.page.evaluate(GO, f"#story/{name}/9/stage")
        checked += check_tables(visit.page)
    assert checked == used > 15


def test_every_grid_of_a_worksheet_has_its_table(visit: Visit) -> None:
    visit.open("#worksheet")
    for name in worksheet_names():
        checked = 0
        for place in one_place_a_step(name):
            visit.go(place)
            checked += check_tables(visit.page)
        assert checked > 0, name


def test_every_chart_of_the_studies_has_its_table(visit: Visit) -> None:
    if not shipped_studies():
        pytest.skip("no study is shipped: run one and ship its results")
    visit.open("#study")
    assert check_tables(visit.page) > 5


def test_a_number_that_its_table_lacks_is_found(visit: Visit) -> None:
    visit.open("#story/bank/9/stage")
    visit.page.evaluate(
        "document.querySelector('svg.drawing').lastElementChild.dataset.quantity = 'new:number'"
    )
    with pytest.raises(AssertionError, match="new:number"):
        check_tables(visit.page)


def test_a_drawing_without_a_table_is_found(visit: Visit) -> None:
    visit.open(at_step("two-routes", "weights"))
    visit.page.evaluate(
        "document.querySelectorAll('main details').forEach((fold) => fold.remove())"
    )
    with pytest.raises(AssertionError):
        check_tables(visit.page)
