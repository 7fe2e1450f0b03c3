"""The worksheet: every number is the engine's, as given, edited, and in every what-if."""

import re

import pytest

from manyheads.worksheets.library import worksheet_names
from tests.web.browsing import Visit, at_step, one_place_a_step, opened, steps_of, worksheet_places
from tests.web.reckoning import (
    SOLVED,
    answers,
    check_close,
    check_decimals,
    check_exact,
    check_shown,
    expected,
)

RIVER = "river-and-cheque"
WEIGHT = "river-and-cheque:river.attn_weights[0][9][5]"
EDITS = {
    "two-routes": {"heads.0.W_Q[0][0]": "1/7"},
    "three-heads": {"heads.2.W_Q[0][0]": "0.25", "W_O[0][0]": "-3"},
    "river-and-cheque": {"heads.0.W_Q[3][1]": "ln 2", "token_embedding.river[0]": "sqrt 2"},
}


def check_walk(visit: Visit, name: str, places: list[str]) -> None:
    seen = visit.shown(places)
    check_shown(seen)
    fields = {found[4] for found in (SOLVED.fullmatch(number.quantity) for number in seen) if found}
    assert answers(name, opened(name).sequence_names[0]).keys() <= fields


def test_every_number_in_every_step_is_the_engines_number(visit: Visit) -> None:
    visit.open()
    for name in worksheet_names():
        places = [*one_place_a_step(name), *one_place_a_step(name, 0, head=1, receiver=2)]
        check_walk(visit, name, places)


@pytest.mark.slow
@pytest.mark.parametrize("name", worksheet_names())
def test_every_number_at_every_receiver_is_the_engines_number(visit: Visit, name: str) -> None:
    visit.open()
    check_walk(visit, name, list(worksheet_places(name)))


def test_every_exact_form_says_the_same_as_its_value(visit: Visit) -> None:
    visit.open()
    for name, mode in (("two-routes", "symbols"), ("three-heads", "symbols"), (RIVER, "fractions")):
        exact = 0
        for quantity, value, text, _ in visit.shown(one_place_a_step(name, numbers=mode)):
            check_close(quantity, value, expected(quantity))
            check_exact(quantity, value, text)
            exact += bool(re.search("[/\u221a]|ln", text))
        assert exact > 10, name


def test_an_edited_worksheet_is_solved_anew_everywhere(visit: Visit) -> None:
    visit.open()
    for name, edits in EDITS.items():
        parts = [f"{place}:{text}".replace(" ", "%20") for place, text in edits.items()]
        places = [f"{place}&edit={';'.join(parts)}" for place in one_place_a_step(name)]
        seen = visit.shown(places)
        check_shown(seen, edits)
        values = {number.quantity: float(number.value) for number in seen if not number.is_former}
        changed = [key for key, value in values.items() if abs(value - expected(key)) > 1e-9]
        assert len(changed) > 5, name
    assert EDITS.keys() == set(worksheet_names())


@pytest.mark.parametrize(
    ("name", "query", "variant"),
    [
        ("two-routes", "zero=on", "zero-query"),
        ("two-routes", "off=2", "without-head-2"),
        (RIVER, "causal=off", "not-causal"),
        pytest.param(RIVER, "zero=on", "zero-query", marks=pytest.mark.slow),
        pytest.param(RIVER, "off=2", "without-head-2", marks=pytest.mark.slow),
    ],
)
def test_every_what_if_is_solved_anew_everywhere(
    visit: Visit, name: str, query: str, variant: str
) -> None:
    visit.open()
    places = [f"{place}&{query}" for place in one_place_a_step(name) if "/mask?" not in place]
    check_shown(visit.shown(places), variant=variant)


def test_one_wide_head_is_solved_anew_everywhere(visit: Visit) -> None:
    visit.open()
    places = [at_step(RIVER, step, "river", head=1) + "&wide=on" for step in steps_of(RIVER)]
    check_shown(visit.shown(places), variant="wide")


def field_of(visit: Visit, place: str) -> str:
    """The field in which a given number is typed."""
    selector = f'input[data-quantity="{place}"]'
    assert visit.page.locator(selector).count() > 0, place
    return selector


def value_of(visit: Visit, quantity: str) -> float:
    """The value of a number on the page, as it stands now."""
    selector = f'main [data-quantity="{quantity}"]:not([data-former])'
    text = visit.page.locator(selector).first.get_attribute("data-value")
    assert text is not None
    return float(text)


def test_typing_a_number_recomputes_undo_brings_it_back(visit: Visit) -> None:
    visit.open(at_step("two-routes", "projections", head=1))
    place, answer = "two-routes:heads.0.W_Q[0][0]", "two-routes:main.q[0][0][0]"
    before = value_of(visit, answer)
    visit.page.locator(field_of(visit, place)).first.click()
    visit.page.keyboard.type("1/7")
    edits = (("heads.0.W_Q[0][0]", "1/7"),)
    assert value_of(visit, answer) == pytest.approx(expected(answer, edits), abs=1e-14)
    assert value_of(visit, answer) != before
    visit.page.keyboard.press("Tab")
    visit.page.get_by_role("button", name="Undo").click()
    assert value_of(visit, answer) == before
    visit.page.get_by_role("button", name="Redo").click()
    assert value_of(visit, answer) == pytest.approx(expected(answer, edits), abs=1e-14)
    visit.page.get_by_role("button", name="Reset all").click()
    assert value_of(visit, answer) == before


def test_what_is_no_number_keeps_the_last_one_and_says_why(visit: Visit) -> None:
    visit.open(at_step("two-routes", "projections", head=1))
    place, answer = "two-routes:heads.0.W_Q[0][0]", "two-routes:main.q[0][0][0]"
    before = value_of(visit, answer)
    visit.page.locator(field_of(visit, place)).first.click()
    visit.page.keyboard.type("1/0")
    field = visit.page.locator(field_of(visit, place)).first
    assert field.get_attribute("aria-invalid") == "true"
    assert value_of(visit, answer) == before
    visit.page.keyboard.press("Tab")
    assert value_of(visit, answer) == before


def test_a_number_explains_itself_down_to_a_given_one(visit: Visit) -> None:
    visit.open(at_step(RIVER, "weights", "river", head=1, receiver=10))
    asked = visit.page.locator(f'button[data-quantity="{WEIGHT}"]').first
    asked.click()
    explanation = visit.page.locator("[data-explanation]")
    explanation.wait_for()
    for _ in range(12):
        numbers = explanation.locator("button.num[data-quantity]")
        if numbers.count() == 0:
            break
        for at in range(numbers.count()):
            name = numbers.nth(at).get_attribute("data-quantity") or ""
            value = numbers.nth(at).get_attribute("data-value") or ""
            check_close(name, value, expected(name))
        numbers.first.click()
    else:
        pytest.fail("no given number was reached in 12 questions")
    assert "given in the worksheet" in explanation.inner_text()
    visit.page.keyboard.press("Escape")
    assert explanation.count() == 0


def test_a_moment_is_in_the_address(visit: Visit) -> None:
    fragment = at_step("two-routes", "output", head=2, receiver=1) + "&edit=W_O.0.1:1/7&off=1"
    visit.open(fragment)
    visit.page.wait_for_timeout(50)
    shown = visit.page.inner_text("main")
    address = visit.page.url
    visit.open("#study").open(address.removeprefix(visit.address))
    assert visit.page.inner_text("main") == shown


def test_an_edit_repaints_within_a_frame(visit: Visit) -> None:
    """The best of forty counts, since a busy machine takes turns."""
    visit.open(at_step(RIVER, "projections", "river", head=1, receiver=10))
    place = field_of(visit, f"{RIVER}:heads.0.W_Q[3][1]")
    took = visit.page.evaluate(
        """async (selector) => {
  const field = document.querySelector(selector);
  field.focus();
  await new Promise((done) => setTimeout(done, 50));
  const times = [];
  for (let at = 0; at < 40; at += 1) {
    field.value = String(1 + at / 8);
    const begun = performance.now();
    field.dispatchEvent(new InputEvent("input", { bubbles: true }));
    await Promise.resolve();
    document.body.getBoundingClientRect();
    times.push(performance.now() - begun);
    await new Promise(requestAnimationFrame);
  }
  return times.sort((a, b) => a - b);
}""",
        place,
    )
    assert took[0] < 16, f"edits took {took[0]:.1f} to {took[-1]:.1f} ms"


def test_a_number_without_its_name_is_found(visit: Visit) -> None:
    visit.open(at_step("two-routes"))
    visit.page.evaluate("document.querySelector('.tokens').append('0.5')")
    with pytest.raises(AssertionError, match="without a name"):
        visit.shown([at_step("two-routes")])


@pytest.mark.parametrize(
    ("value", "text"), [("0.5", "0.4"), ("0.12345", "0.124"), ("0.5", "0.4996"), ("-0.5", "0.5")]
)
def test_a_number_shown_wrong_is_found(value: str, text: str) -> None:
    with pytest.raises(AssertionError):
        check_decimals("w:s.x[0][0]", value, text)


def test_a_value_that_is_not_the_engines_is_found() -> None:
    check_close(WEIGHT, repr(expected(WEIGHT)), expected(WEIGHT))
    with pytest.raises(AssertionError):
        check_close(WEIGHT, repr(expected(WEIGHT) + 1e-11), expected(WEIGHT))


def test_what_no_decimal_holds_is_explained_where_it_is_shown(visit: Visit) -> None:
    visit.open(at_step(RIVER, "softmax"))
    assert "too large to show as a decimal" not in visit.page.inner_text("main")
    visit.open(at_step(RIVER, "softmax", head=1) + "&edit=heads.0.W_Q[3][1]:1e30")
    assert "too large to show as a decimal" in visit.page.inner_text("main")
