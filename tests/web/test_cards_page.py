"""The cards of the page: their numbers, their dates, and nothing of a learner's is lost."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from manyheads.learn.cards.deck import deck
from manyheads.learn.cards.reviews import read_reviews
from manyheads.learn.cards.schedule import replay
from tests.web.browsing import Visit
from tests.web.exercising import answer_with, texts
from tests.web.learning import NOON, REVIEWS, bring_in, check_said, kept, saved, turn
from tests.web.reckoning import drawn

TURN = """() => {
  document.querySelector("[data-show]").click();
  return document.querySelector("[data-card]").dataset.card;
}"""


def test_every_card_comes_and_its_numbers_are_the_engines(dated_visit: Visit) -> None:
    dated_visit.open("#learn/cards")
    numbers = dated_visit.shown(["#learn/cards"])
    seen: list[str] = []
    for day in range(-(-len(deck()) // 10)):
        dated_visit.page.clock.set_fixed_time(NOON + timedelta(days=day))
        dated_visit.go("#learn")
        dated_visit.go("#learn/cards")
        for _ in range(10):
            if len(seen) == len(deck()):
                break
            seen.append(dated_visit.page.evaluate(TURN))
            numbers |= dated_visit.shown(["#learn/cards"])
            dated_visit.page.keyboard.press("4")
    assert seen == [card.id for card in deck()]
    check_said(numbers)


def test_cards_go_by_keyboard_alone(visit: Visit) -> None:
    visit.open("#learn/cards")
    visit.page.keyboard.press("3")  # the card is not turned yet
    assert kept(visit.page, REVIEWS) == []
    visit.page.locator("[data-show]").focus()
    for key in ("Enter", "2", "Enter", "Enter"):
        visit.page.keyboard.press(key)
        visit.page.wait_for_timeout(60)
    assert [record["rating"] for record in kept(visit.page, REVIEWS)] == [2, 3]


def test_reviews_lead_to_the_terminals_dates(dated_visit: Visit, tmp_path: Path) -> None:
    now = NOON
    for rating, wait in ((3, 0), (1, 700), (4, 60), (2, 90_000), (3, 900), (1, 86_400 * 9)):
        now += timedelta(seconds=wait)
        dated_visit.page.clock.set_fixed_time(now)
        dated_visit.open("#learn/cards")
        assert turn(dated_visit.page)
        dated_visit.page.keyboard.press(str(rating))
    path = saved(dated_visit.page, "Save reviews to a file", tmp_path)
    assert path.name == REVIEWS
    progress = replay(read_reviews(tmp_path).reviews, now)
    assert sum(state.num_reviews for state in progress.states.values()) == 6
    dated_visit.page.locator("summary", has_text="All").click()
    rows = dated_visit.page.locator(".listing tbody tr")
    rows.first.wait_for()
    for at, card in enumerate(deck()[:4]):
        state = progress.states.get(card.id)
        shown = rows.nth(at).locator("td").all_inner_texts()
        assert shown[0] == str(state.num_reviews if state else 0)
        days = (state.due - now).total_seconds() / 86_400 if state else 0
        if days >= 1:
            assert shown[1] == f"in {round(days)} day{'' if round(days) == 1 else 's'}"


def test_a_clock_set_back_is_said_and_loses_nothing(dated_visit: Visit) -> None:
    dated_visit.open("#learn/cards")
    assert turn(dated_visit.page)
    dated_visit.page.keyboard.press("3")
    dated_visit.page.clock.set_fixed_time(NOON - timedelta(days=400))
    dated_visit.open("#learn/cards")
    assert "1 review is dated after today" in dated_visit.page.inner_text("main")
    assert turn(dated_visit.page)
    dated_visit.page.keyboard.press("1")
    assert len(kept(dated_visit.page, REVIEWS)) == 2
    dated_visit.page.clock.set_fixed_time(NOON + timedelta(days=1))
    dated_visit.open("#learn/cards")
    assert "dated after" not in dated_visit.page.inner_text("main")


@pytest.mark.parametrize(
    "damage", ["{{{ no JSON", "[1, 2]\n\x00\x01", '{"card": "a", "rating": 77}', "null", "1e999"]
)
def test_damaged_storage_is_set_aside_and_the_page_works(
    visit: Visit, tmp_path: Path, damage: str
) -> None:
    visit.page.evaluate("(t) => localStorage.setItem('manyheads-reviews.jsonl', t)", damage)
    visit.open("#learn/cards")
    assert "could not be read" in visit.page.inner_text("main")
    assert turn(visit.page)
    visit.page.keyboard.press("3")
    assert len(kept(visit.page, REVIEWS)) == 1
    path = saved(visit.page, "Save the damaged lines", tmp_path)
    assert path.read_text(encoding="utf-8").strip() == damage.strip()
    assert damage.strip() in visit.page.evaluate("localStorage['manyheads-reviews.jsonl.aside']")


REFUSING = {
    "refused": "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException("
    "'denied', 'SecurityError'); } })",
    "full": "Storage.prototype.setItem = () => { throw new DOMException('full', "
    "'QuotaExceededError'); }",
}


@pytest.mark.parametrize("how", REFUSING)
def test_without_storage_the_page_works_and_says_so(
    browser: Browser, from_disk: str, tmp_path: Path, how: str
) -> None:
    with Visit(browser, from_disk, offline=True) as visit:
        visit.page.add_init_script(REFUSING[how])
        visit.open("#learn/cards")
        assert turn(visit.page)
        visit.page.keyboard.press("3")
        trouble = visit.page.locator(".trouble[role=alert]").inner_text()
        assert "save your records as a file" in trouble
        saved(visit.page, "Save reviews to a file", tmp_path)
        assert len(read_reviews(tmp_path).reviews) == 1
        visit.open("#learn/exercises/score/3")
        answer_with(visit.page, texts(drawn("score", 3).answer))
        assert visit.page.inner_text(".verdict") == "Right."
        assert "save your records as a file" in visit.page.inner_text(".trouble[role=alert]")


def test_a_file_of_the_terminal_is_brought_in_line_by_line(visit: Visit) -> None:
    visit.open("#learn/cards")
    record = {"card": deck()[0].id, "rating": 3, "when": "2026-01-05T12:00:00.000Z"}
    good = json.dumps(record)
    said = bring_in(visit.page, f"{good}\n{{half a line\n".encode())
    assert "1 of 1 records were new" in said
    assert "line 2" in said
    assert kept(visit.page, REVIEWS) == [record]
    assert "1 of" in visit.page.inner_text(".tallies")
    assert "0 of 1 records were new" in bring_in(visit.page, good.encode())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"%PDF-1.7 \x00\xff\xfe", "not JSON"),
        (b'{"question": "scale", "when": "2026-01-05T12:00:00Z"}', "no text in the field card"),
        (b"x" * 2_000_001, "longer"),
    ],
    ids=["empty", "binary", "another file", "too long"],
)
def test_a_file_without_records_changes_nothing(visit: Visit, content: bytes, why: str) -> None:
    visit.open("#learn/cards")
    said = bring_in(visit.page, content)
    assert why in said
    assert "Nothing was changed" in said
    assert kept(visit.page, REVIEWS) == []


def test_the_view_works_from_the_server_under_its_policy(
    served_visit: Visit, tmp_path: Path
) -> None:
    page = served_visit.open("#learn/cards").page
    assert turn(page)
    page.keyboard.press("3")
    saved(page, "Save reviews to a file", tmp_path)
    assert "0 of 1 records" in bring_in(page, (tmp_path / REVIEWS).read_bytes())
