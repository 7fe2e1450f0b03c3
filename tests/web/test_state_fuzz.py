"""No fragment breaks the page: whatever is written there leads to a place that exists."""

import random

import pytest

from tests.web.browsing import VIEWS, Visit

PIECES = [
    *("learn", "teach", "quiz", "explain", "cards", "exercises", "log", "scale", "one-head"),
    *("story", "worksheet", "models", "study", "two-routes", "main", "weights", "coat", "stage"),
    *("/", "/", "/", "?", "&", "=", ";", ":", ",", "#", "%", "%E0%A4%A", "%00", "%2F", "[0]"),
    *("head=", "receiver=", "edit=", "why=", "off=", "causal=off", "wide=on", "numbers=", "seed="),
    *("heads=", "text=", "preset=", "word=", "W_O.0.1:1/7", "heads.0.W_Q[3][1]", "presenter"),
    *("0", "1", "2", "-1", "1e9", "NaN", "9" * 30, "Infinity", "0.5", "ln 2", "1/0", "sqrt(-1)"),
    *("__proto__", "constructor", "<b>", "\u202e", "\u0000", "\u0661", " ", "read", "999999"),
]
FIXED = [
    "#%",
    "#//////",
    "#story/__proto__/1e9/constructor",
    "#story/start/99/nowhere",
    "#worksheet/river-and-cheque/river/weights?head=99&receiver=0&edit=W_O.9.9:1;;:::x",
    "#worksheet/two-routes/main/output?edit=W_O.0.0:1/0&why=main.output[9][9];main.nothing[0]",
    "#models/heads=own.off&seed=-1&t=NaN&text=%E0%A4%A&look=__proto__&word=0",
    "#study/constructor",
    "#learn/quiz/__proto__",
    "#learn/cards/constructor/1e9?%E0%A4%A",
    "#learn/exercises/score/99999999999999999999",
    "#learn/explain/%00/../quiz",
    "#teach/%2F/constructor",
    "#worksheet=__proto__&sequence=constructor&step=%E0%A4%A",
    "#worksheet/three-heads/main/dots?edit=" + "W_O.0.0:1;" * 400,
    "#" + "a/" * 3000,
]


def random_fragments(count: int) -> list[str]:
    """Fragments that are damaged in every place, the same on every run."""
    chance = random.Random(20)
    starts = [*(f"#{view}/" for view in VIEWS), "#", "#worksheet?"]
    return [
        chance.choice(starts) + "".join(chance.choices(PIECES, k=chance.randint(0, 9)))
        for _ in range(count)
    ]


def check_alive(visit: Visit, fragment: str) -> None:
    """A view with a heading is shown, and its controls still answer."""
    assert visit.page.locator("main h2").count() > 0, fragment
    assert visit.errors == [], (fragment, visit.errors)


@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_no_fragment_breaks_the_page_that_is_open(visit: Visit, count: int) -> None:
    visit.open()
    for fragment in [*FIXED, *random_fragments(count)]:
        visit.page.evaluate("(fragment) => { location.hash = fragment; }", fragment)
        visit.page.wait_for_timeout(10)
        check_alive(visit, fragment)
    visit.go("#study")
    assert visit.view() == "study"


def test_no_fragment_breaks_a_page_that_begins_with_it(visit: Visit) -> None:
    for fragment in [*FIXED[2:8], *random_fragments(4)]:
        visit.open(fragment)
        check_alive(visit, fragment)
