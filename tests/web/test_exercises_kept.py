"""Results of exercises are kept as the terminal keeps them; everybody can read exercises."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page

from manyheads.learn.exercises import KINDS, Exercise, mark
from manyheads.learn.exercises.marking import FILE, Marked, record_of
from manyheads.learn.own_files import add_record, read_records
from tests.web.browsing import Visit
from tests.web.exercising import LAST_SEED, answer_with, place, texts
from tests.web.learning import NOON, bring_in, kept, saved
from tests.web.reckoning import drawn
from tests.web.test_page_layout import AXE, SMALL_PRINT, TOO_WIDE


def result(one: Exercise) -> Marked:
    """A wrong answer, as the terminal marks it."""
    typed = ", ".join(["99"] * len(one.answer))
    return Marked(one, typed, mark(one, typed))


def test_results_are_the_terminals_records_and_move_both_ways(visit: Visit, tmp_path: Path) -> None:
    one, other = drawn("concat", 3), drawn("concat", 4)
    visit.open(place(one))
    answer_with(visit.page, ["1"] * 6)
    answer_with(visit.page, ["1"] * 6)  # the same once more is no further answer
    answer_with(visit.page, texts(one.answer))
    visit.go("#learn/exercises")
    path = saved(visit.page, "Save results to a file", tmp_path)
    records = read_records(path).records
    assert path.name == FILE
    assert [record["right"] for record in records] == [False, True]
    assert all(set(record) == set(record_of(result(one), NOON)) for record in records)
    assert visit.page.inner_text("[data-kind=concat]") == "1 of 1 right so far"
    add_record(tmp_path / FILE, record_of(result(other), NOON))
    assert "1 of 3 records were new" in bring_in(visit.page, (tmp_path / FILE).read_bytes())
    assert visit.page.inner_text("[data-kind=concat]") == "1 of 2 right so far"
    assert (
        visit.page.locator(".kinds a").nth(3).get_attribute("href") == "#learn/exercises/concat/1"
    )
    visit.go("#learn")
    assert "1 of 2 right so far" in visit.page.inner_text(".ways")


def test_a_record_is_one_line_of_json(visit: Visit) -> None:
    visit.open("#learn/exercises/score/3")
    answer_with(visit.page, ["1\u202e", "2", "3"])
    answer_with(visit.page, ["1", "2", "3"])
    (line,) = visit.page.evaluate("localStorage['manyheads-exercises.jsonl']").splitlines()
    assert json.loads(line)["typed"] == "1, 2, 3"


@pytest.mark.parametrize(
    "damage", ["{{{", '{"exercise": "score/1"}', '{"exercise": 1, "right": "yes"}', "[]"]
)
def test_damaged_results_are_set_aside_and_exercises_go_on(visit: Visit, damage: str) -> None:
    visit.page.evaluate("(t) => localStorage.setItem('manyheads-exercises.jsonl', t)", damage)
    visit.open("#learn/exercises")
    assert "could not be read" in visit.page.inner_text("main")
    assert visit.page.evaluate("localStorage['manyheads-exercises.jsonl.aside']").strip() == damage
    visit.go("#learn/exercises/score/3")
    answer_with(visit.page, texts(drawn("score", 3).answer))
    assert len(kept(visit.page, FILE)) == 1


def test_what_was_typed_waits_until_it_is_marked(visit: Visit) -> None:
    visit.open("#learn/exercises/score/3")
    visit.page.locator(".asked input").nth(1).fill("1/3")
    visit.go("#study")
    visit.go("#learn/exercises/score/3")
    assert visit.page.locator(".asked input").nth(1).input_value() == "1/3"


@pytest.mark.parametrize(
    ("size", "theme", "kinds"),
    [
        ("phone", "light", tuple(KINDS)),
        pytest.param("phone", "dark", ("message", "concat"), marks=pytest.mark.slow),
        pytest.param(
            *("desktop", "light", ("projected-output", "byte-count")), marks=pytest.mark.slow
        ),
        ("desktop", "dark", ("mask-rows", "layout-conversion")),
    ],
)
def test_exercises_can_be_read_by_everybody(
    visit: Visit, axe: str, size: str, theme: str, kinds: tuple[str, ...]
) -> None:
    places = ["", "nothing", "score/none", "sheet/7/15", "sheet/7/15/4"]
    places += [f"{kind}/{LAST_SEED}" for kind in kinds]
    seen = set(places if kinds != tuple(KINDS) else places[::3])  # by axe, which takes long
    visit.look(size, theme).open()
    visit.page.evaluate(axe)
    for part in places:
        visit.go(f"#learn/exercises/{part}")
        has_task = visit.page.locator("article[data-exercise]").count() == 1
        check_readable(visit.page, part, with_axe=part in seen and not has_task)
        if has_task:
            answer_with(visit.page, ["1"])
            check_readable(visit.page, part, with_axe=False)
            visit.page.get_by_role("button", name="Show the answer").click()
            check_readable(visit.page, part, with_axe=part in seen)


def check_readable(page: Page, part: str, *, with_axe: bool) -> None:
    assert page.evaluate(TOO_WIDE) == [0, 0], part
    assert page.evaluate(SMALL_PRINT) == [], part
    if with_axe:
        assert page.evaluate(AXE) == [], part
        assert page.evaluate(TOO_WIDE) == [0, 0], f"{part}, all unfolded"
