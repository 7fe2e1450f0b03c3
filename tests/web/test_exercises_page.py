"""Exercises on the page are the terminal's: what is given, what is right, and how it is marked."""

import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from manyheads.learn.exercises import KINDS, mark
from manyheads.learn.exercises.form import number_text
from manyheads.learn.exercises.marking import FILE, Marked, record_of
from manyheads.worksheets.arithmetic import float_of
from tests.web.browsing import Visit
from tests.web.exercising import answer_with, check_lines, names, place, texts
from tests.web.learning import NOON, check_said, kept
from tests.web.reckoning import drawn

SOME = ("score", "concat", "mask-rows")
"""Marking of every kind is compared with the terminal's without a browser, in web/tests."""
SEED = 3


def test_what_is_given_and_what_is_right_is_the_terminals(visit: Visit) -> None:
    visit.open("#learn/exercises")
    for one in (drawn(kind, SEED) for kind in KINDS):
        before = visit.shown([place(one)])
        assert {number.quantity for number in before} == names(one)["given"]
        assert check_lines(visit.page) == {f"exercise:{one.id}:prompt"}
        assert visit.page.locator(".asked label").all_inner_texts() == list(one.asks)
        assert "answer[" not in visit.page.content()
        visit.page.get_by_role("button", name="Give up").click()
        after = visit.shown([place(one)])
        assert {number.quantity for number in after} == names(one)["open"]
        assert len(check_lines(visit.page)) == 1 + len(one.working) + len(one.misconceptions)
        check_said(before | after)


def test_a_right_answer_is_right_exact_or_rounded(visit: Visit) -> None:
    visit.open("#learn/exercises")
    for one in (drawn(kind, SEED) for kind in SOME):
        visit.go(place(one))
        for typed in (texts(one.answer), [f"{float_of(n):.6g}" for n in one.answer]):
            answer_with(visit.page, typed)
            assert visit.page.inner_text(".verdict.right") == "Right."
            assert visit.page.evaluate("document.activeElement.textContent") == "Another"
            visit.page.get_by_role("button", name="Answer again").click()
            assert "answer[" not in visit.page.content()


def test_every_known_mistake_is_named_as_in_the_terminal(visit: Visit) -> None:
    records = []
    visit.open("#learn/exercises")
    for one in (drawn(kind, SEED) for kind in SOME):
        visit.go(place(one))
        for item in one.misconceptions:
            typed = answer_with(visit.page, texts(item.values))
            found = mark(one, typed)
            assert item in found.misconceptions
            check_lines(visit.page, found)
            assert visit.page.locator(".verdict.wrong").count() == 1
            assert "answer[" not in visit.page.content()
            records.append(record_of(Marked(one, typed, found), NOON))
    mine = kept(visit.page, FILE)
    assert [record | {"when": ""} for record in mine] == [r | {"when": ""} for r in records]


NONSENSE = (
    *([""], ["one"], ["1/0"], ["0.3", "0.1", "0.6"], ["1,5"], ["1" * 650], ["(1, 2"], ["1e400"]),
    *(["<b>"], ["1;2;3;4;5"], ["sqrt(-1)", "2", "3"], ["1 2", "3", "4"], ["\u0661", "2", "3"]),
    *([" 1/7 ,"], ["ln 2 sqrt 2 2ln3"], ["[0.25", "1", "2]"], ["5", "5", "5"], ["100%"] * 3),
)


def test_nonsense_gets_the_terminals_answer(visit: Visit) -> None:
    one = drawn("weight-row", 3)
    visit.open(place(one))
    judged = 0
    for typed in NONSENSE:
        joined = answer_with(visit.page, typed)
        found = mark(one, re.sub(r"[\s,;]+$", "", joined).strip())
        check_lines(visit.page, found)
        judged += found.is_judged
        assert visit.page.locator(".verdict.unsure").count() == (not found.is_judged), typed
        assert len(kept(visit.page, FILE)) == judged, typed
        assert visit.page.get_by_role("button", name="Show the answer").count() == 1, typed
        assert visit.page.locator("main b").count() == 0, typed
    assert 0 < judged < len(NONSENSE)


def test_one_field_takes_the_whole_answer(visit: Visit) -> None:
    one = drawn("message", 3)
    visit.open(place(one))
    visit.page.locator(".asked input").first.fill("; ".join(texts(one.answer)))
    visit.page.keyboard.press("Enter")
    assert visit.page.inner_text(".verdict") == "Right."


def test_enter_goes_on_while_fields_are_empty_and_then_marks(visit: Visit) -> None:
    one = drawn("score", 3)
    visit.open(place(one))
    visit.page.locator(".asked input").first.focus()
    for number in one.answer:
        assert visit.page.locator(".marking p").count() == 0
        visit.page.keyboard.type(number_text(number + 1))
        visit.page.keyboard.press("Enter")
    assert "Not right" in visit.page.inner_text(".verdict")
    visit.page.get_by_role("button", name="Show the working").click()
    assert visit.page.locator(".working").is_visible()
    assert visit.page.locator(".asked input[readonly]").count() == len(one.asks)
    assert len(kept(visit.page, FILE)) == 1


def test_a_field_that_cannot_be_read_takes_the_focus(visit: Visit) -> None:
    visit.open("#learn/exercises/score/3")
    answer_with(visit.page, ["1", "two", "3"])
    field = visit.page.locator(".asked input").nth(1)
    assert field.evaluate("(field) => field === document.activeElement")
    assert field.get_attribute("aria-invalid") == "true"
    says = field.evaluate("(f) => document.getElementById(f.getAttribute('aria-describedby')).role")
    assert says == "status"
    field.fill("2")
    visit.page.locator(".asked input").nth(2).fill("")
    visit.page.get_by_role("button", name="Check").click()
    assert visit.page.locator(".asked input").nth(2).evaluate("(f) => f === document.activeElement")


def test_a_number_or_a_sentence_that_is_not_the_terminals_is_found(visit: Visit) -> None:
    visit.open("#learn/exercises/score/3")
    cell = visit.page.locator("[data-quantity*=':given.']").first
    cell.evaluate("(cell) => { cell.dataset.value = '77'; cell.textContent = '77'; }")
    with pytest.raises(AssertionError):
        check_said(visit.shown(["#learn/exercises/score/3"]))
    visit.page.locator("[data-text]").first.evaluate("(line) => line.append(' More.')")
    with pytest.raises(AssertionError):
        check_lines(visit.page)


LOADED = "Object.keys(globalThis.manyheadsExercises ?? {})"


def test_a_kind_is_loaded_when_an_exercise_of_it_is_opened(
    visit: Visit, served_visit: Visit
) -> None:
    for one in (visit, served_visit):
        one.open("#learn/exercises")
        for part, loaded in {
            "sheet/1/13": [],
            "score/1": ["score"],
            "score/2": ["score"],
            "weight-row/2": ["score", "weight-row"],
        }.items():
            one.go(f"#learn/exercises/{part}")
            assert one.page.evaluate(LOADED) == loaded, part
            assert one.page.locator("article[data-exercise]").count() == len(loaded[:1])


def test_a_kind_that_cannot_be_loaded_says_so_and_is_loaded_later(
    browser: Browser, site: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "lesson"
    shutil.copytree(site, copy)
    script = (copy / "exercises" / "score.js").rename(tmp_path / "score.js")
    visit = Visit(browser, f"{copy.as_uri()}/index.html")
    visit.open("#learn/exercises/score/1")
    says = visit.page.inner_text(".trouble[role=alert]")
    assert says == "The file exercises/score.js cannot be loaded: reload the page."
    script.rename(copy / "exercises" / "score.js")
    visit.go("#learn/exercises/score/2")
    assert visit.page.get_attribute("[data-exercise]", "data-exercise") == "score/2"
    visit.context.close()
