"""The learn view can be read in every state: no sideways scroll, no small print, no violation."""

import pytest

from tests.web.browsing import SIZES, Visit, at_step
from tests.web.learning import turn
from tests.web.test_page_layout import AXE, SMALL_PRINT, TOO_WIDE

RECORDS = """() => {
  const when = "2026-01-05T11:00:00.000Z";
  const line = (fields) => JSON.stringify({ when, ...fields }) + "\\n";
  const keep = (name, text) => localStorage.setItem(`manyheads-${name}.jsonl`, text);
  keep("reviews", line({ card: "shapes-head-width", rating: 3 }) + "damaged\\n"
    + line({ card: "shapes-head-width", rating: 3, when: "2031-01-05T11:00:00.000Z" }));
  keep("predictions", Array.from({ length: 3 }, (_, at) => line({
    where: "worksheet:river-and-cheque", try: "one-wide-head", prediction: "w".repeat(40 * at),
    outcome: "123456789/987654321 = 0.125", right: [true, false, null][at],
  })).join(""));
  keep("quiz", line({ question: "scale", covered: [true], right: [true] }));
}"""


def check_readable(visit: Visit, place: str) -> None:
    assert visit.page.evaluate(TOO_WIDE) == [0, 0], place
    assert visit.page.evaluate(SMALL_PRINT) == [], place
    assert visit.page.evaluate(AXE) == [], place


def answer_question(visit: Visit) -> None:
    visit.page.fill(".free textarea", "An answer.")
    for field in visit.page.locator("input.typed").all():
        field.fill("9" * 90)
    visit.page.get_by_role("button", name="Show the full answer").click()
    visit.page.locator(".points input").first.check()


def find_gap(visit: Visit) -> None:
    box = visit.page.locator("[data-half=apply]")
    box.locator("textarea").fill("An application.")
    box.get_by_role("button", name="Compare it with the points").click()
    box.get_by_role("button", name="Find the first missing point").click()
    box.locator(".gap textarea").fill("A guess.")
    box.get_by_role("button", name="Show a good answer").click()


def turn_card(visit: Visit) -> None:
    assert turn(visit.page)


def run_experiment(visit: Visit) -> None:
    visit.page.locator("summary", has_text="Try this").click()
    box = visit.page.locator(".try-this")
    box.get_by_label("a number").check()
    box.locator("input.typed").fill("1/3")
    box.get_by_role("button", name="Run it").click()


STATES = {
    "#learn/quiz/equal-queries": answer_question,
    "#learn/explain/one-head": find_gap,
    "#learn/cards": turn_card,
    "#learn/log": None,
    "#learn/quiz": None,
    "#learn": None,
    at_step("river-and-cheque", "weights"): run_experiment,
}


@pytest.mark.parametrize(
    ("size", "theme", "share"),
    [
        ("desktop", "dark", slice(0, None, 2)),  # the two together see every state
        ("phone", "light", slice(1, None, 2)),
        *(
            pytest.param(size, theme, slice(None), marks=pytest.mark.slow)
            for size in SIZES
            for theme in ("light", "dark")
        ),
    ],
)
def test_every_state_can_be_read(
    dated_visit: Visit, axe: str, size: str, theme: str, share: slice
) -> None:
    visit = dated_visit.look(size, theme, motion="reduce")
    visit.page.evaluate(RECORDS)
    for place, act in list(STATES.items())[share]:
        visit.open(place)
        visit.page.evaluate(axe)
        if act:
            act(visit)
        check_readable(visit, place)
