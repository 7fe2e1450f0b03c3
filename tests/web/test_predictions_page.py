"""Predict, then run: the prediction comes first, the engine answers, and both are kept."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator

from manyheads.cli.worksheet import outcome_text
from manyheads.learn.predictions import read_predictions
from manyheads.learn.worksheet_tries import try_named
from manyheads.worksheets.library import worksheet
from tests.web.browsing import Visit, at_step
from tests.web.learning import saved
from tests.web.reckoning import check_close, expected

TRY = at_step("two-routes", "weights", "main", head=1, receiver=3)
WEIGHT = "two-routes:main.attn_weights[0][2][2]"


def try_box(visit: Visit, place: str) -> Locator:
    """The opened box of experiments on a worksheet."""
    visit.open(place)
    visit.page.locator("summary", has_text="Try this").click()
    return visit.page.locator(".try-this")


def test_a_prediction_comes_before_the_run(visit: Visit) -> None:
    box = try_box(visit, TRY)
    box.get_by_role("button", name="Run it").click()
    assert "First" in box.locator("[role=alert]").inner_text()
    box.get_by_label("a number").check()
    box.locator("input.typed").fill("1/0")
    box.get_by_role("button", name="Run it").click()
    assert "divides by zero" in box.locator("[role=alert]").inner_text()
    visit.page.wait_for_timeout(400)
    assert "zero=on" not in visit.page.url
    box.locator("input.typed").fill("0.333")
    box.get_by_role("button", name="Run it").click()
    assert "your prediction was right" in " ".join(box.inner_text().split())
    outcome = box.locator(f'.verdict [data-quantity="{WEIGHT}"]').get_attribute("data-value")
    check_close(WEIGHT, outcome or "", expected(WEIGHT, variant="zero-query"))
    visit.page.wait_for_timeout(400)
    assert "zero=on" in visit.page.url
    box.get_by_role("button", name="Why?").click()
    visit.page.locator("[data-explanation]").wait_for()


def test_predictions_are_logged_as_the_terminal_logs_them(visit: Visit, tmp_path: Path) -> None:
    box = try_box(visit, TRY)
    for name, prediction in (("zero-query", "lower"), ("no-mask-last", "higher")):
        box.locator("select").select_option(name)
        box.get_by_label(prediction).check()
        box.get_by_role("button", name="Run it").click()
        box.get_by_role("button", name="Restore the worksheet").click()
    visit.go("#learn/log")
    assert "1 of 2 right" in " ".join(visit.page.inner_text(".tallies").split())
    saved(visit.page, "Save predictions to a file", tmp_path)
    first, second = read_predictions(tmp_path)
    tried = try_named(worksheet("two-routes"), "zero-query")
    outcome = f"{tried.label}: {outcome_text(tried)}"
    assert (first.where, first.try_name) == ("worksheet:two-routes", "zero-query")
    assert (first.prediction, first.outcome, first.right) == ("lower", outcome, True)
    assert (second.try_name, second.right) == ("no-mask-last", False)


def test_an_experiment_starts_from_the_worksheet_as_given(visit: Visit) -> None:
    box = try_box(visit, TRY + "&edit=W_O.0.0:7&off=2")
    before = box.locator(f'[data-quantity="{WEIGHT}"]').first
    assert float(before.get_attribute("data-value") or "") == pytest.approx(expected(WEIGHT))
    box.get_by_label("lower").check()
    box.get_by_role("button", name="Run it").click()
    visit.page.wait_for_timeout(400)
    assert "edit=" not in visit.page.url
    visit.page.get_by_role("button", name="Undo").click()
    visit.page.wait_for_timeout(400)
    assert "edit=W_O.0.0:7" in visit.page.url
