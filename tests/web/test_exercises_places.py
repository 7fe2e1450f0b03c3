"""Every address of exercises leads somewhere, and a sheet is the terminal's sheet."""

import re

import pytest

from manyheads.learn.exercises import KINDS
from manyheads.learn.exercises.kinds import LARGEST_SEED, MAX_COUNT, exercise_sheet
from tests.web.browsing import Visit
from tests.web.exercising import LAST_SEED, answer_with, check_lines, plain, texts

WRONG = f"must be a whole number from 0 to {LAST_SEED}: use another"
NO_COUNT = f"must be a whole number from 1 to {MAX_COUNT}: use another"
BEYOND = f"must be at most {LAST_SEED} on this page: use another, or run manyheads quiz exercises"
ADDRESSES: tuple[tuple[str, str, str], ...] = (
    ("score/7", "score/7", ""),
    ("score/007", "score/7", ""),
    ("score", "score/1", ""),
    (f"mask-rows/{LAST_SEED}", f"mask-rows/{LAST_SEED}", ""),
    (f"mask-rows/{LAST_SEED + 1}", "mask-rows/1", f"{BEYOND} mask-rows --seed {LAST_SEED + 1}"),
    (f"mask-rows/{LARGEST_SEED}", "mask-rows/1", f"{BEYOND} mask-rows --seed {LARGEST_SEED}"),
    (f"mask-rows/{LARGEST_SEED + 1}", "mask-rows/1", WRONG),
    ("score/-1", "score/1", f"seed (-1) {WRONG}"),
    ("score/1e3", "score/1", f"seed (1e3) {WRONG}"),
    ("score/%D9%A1", "score/1", f"seed (\u0661) {WRONG}"),
    ("score/%00%F0%9F%98%80<b>", "score/1", WRONG),
    ("score/" + "9" * 300, "score/1", WRONG),
    ("score/7/8/9/10", "score/7", ""),
    ("nothing/7", "", "kind (nothing) does not exist"),
    ("__proto__/constructor", "", "kind (__proto__) does not exist"),
    ("", "", ""),
    ("sheet/7/4/2", "weight-row/7", ""),
    ("sheet/7/14/14", "score/8", ""),
    (f"sheet/{LAST_SEED}/13/13", f"layout-conversion/{LAST_SEED}", ""),
    (f"sheet/{LAST_SEED}/14/14", "", f"quiz exercises --seed {LAST_SEED} --count 14"),
    (f"sheet/{LARGEST_SEED}/14/2", "weight-row/1", f"{BEYOND} --seed {LARGEST_SEED} --count 14"),
    ("sheet/x/14/1", "score/1", f"seed (x) {WRONG}"),
    ("sheet/7/4/5", "sheet of 4", "number (5) must be a whole number from 1 to 4"),
    ("sheet/7/0", "sheet of 13", f"count (0) {NO_COUNT}"),
    (
        "sheet/7/1001/-1",
        "sheet of 13",
        f"count (1001) {NO_COUNT}",
    ),
    ("sheet/7/1000", "sheet of 1000", ""),
    ("sheet", "sheet of 13", ""),
)


def test_an_address_leads_to_its_exercise_or_says_why_not(visit: Visit) -> None:
    visit.open("#learn/exercises/score/-1")
    page = visit.page
    assert page.get_attribute("[data-exercise]", "data-exercise") == "score/1"
    for part, leads_to, says in ADDRESSES:
        for start in ("sheet/1/13", "score/1"):  # what is wrong keeps the last seed and count
            visit.go(f"#learn/exercises/{start}")
        visit.go(f"#learn/exercises/{part}")
        told = page.locator(".trouble:visible")
        assert told.count() == (says != ""), part
        assert says in (told.inner_text() if says else ""), part
        if leads_to.startswith("sheet"):
            assert page.locator("li[data-exercise]").count() == int(leads_to.split()[-1]), part
        elif leads_to:
            assert page.get_attribute("[data-exercise]", "data-exercise") == leads_to, part
        else:
            assert page.locator("[data-kind]").count() == len(KINDS), part


def test_a_wrong_seed_keeps_the_exercise_and_says_why(visit: Visit) -> None:
    visit.open("#learn/exercises/score/7")
    field = visit.page.get_by_label("Seed")
    for text in ("", "-1", "200", "4294967296", "1/2", "7 8", "\u0661", "__proto__", "9" * 40):
        field.fill(text)
        field.press("Enter")
        assert f"seed ({text}) {BEYOND if text == '200' else WRONG}" in visit.page.inner_text(
            ".picker .trouble"
        )
        assert visit.page.get_attribute("[data-exercise]", "data-exercise") == "score/7"
        assert visit.page.url.endswith("#learn/exercises/score/7")
    field.fill(" 12 ")
    field.press("Enter")
    assert visit.page.locator(".trouble:visible").count() == 0
    assert visit.page.get_attribute("[data-exercise]", "data-exercise") == "score/12"
    assert field.evaluate("(field) => field === document.activeElement")
    visit.page.evaluate("location.hash = '#learn/exercises/concat/no'")
    visit.page.wait_for_selector("[data-exercise='concat/12']")
    assert "Still showing seed 12." in visit.page.inner_text(".picker .trouble")


def test_kind_seed_and_another_move_through_addresses(visit: Visit) -> None:
    visit.open(f"#learn/exercises/score/{LAST_SEED}")
    visit.page.get_by_label("Kind").select_option("byte-count")
    visit.page.wait_for_selector(f"[data-exercise='byte-count/{LAST_SEED}']")
    visit.page.get_by_role("link", name="Another").click()
    visit.page.wait_for_selector("[data-exercise='byte-count/0']")
    assert visit.page.url.endswith("#learn/exercises/byte-count/0")
    visit.page.go_back()
    visit.page.wait_for_selector(f"[data-exercise='byte-count/{LAST_SEED}']")


@pytest.mark.parametrize(("seed", "count"), [(7, 3), (LAST_SEED - 1, 14)])
def test_a_sheet_is_the_terminals(visit: Visit, seed: int, count: int) -> None:
    visit.open("#learn/exercises")
    form = visit.page.locator(".sheet-form")
    form.get_by_label("Seed").fill(str(seed))
    form.get_by_label("Exercises").fill(str(count))
    form.get_by_role("button").click()
    visit.page.wait_for_selector("li[data-exercise]")
    wanted = list(exercise_sheet((), seed, count))
    rows = visit.page.locator("li[data-exercise]")
    listed = rows.evaluate_all("(all) => all.map((one) => one.dataset.exercise)")
    assert listed == [one.id for one in wanted]
    titles = [re.sub(r"^\d+\s*", "", text) for text in rows.locator("a").all_text_contents()]
    assert titles == [plain(one.title) for one in wanted]
    assert f"--seed {seed} --count {count}" in visit.page.inner_text("main")
    visit.page.get_by_role("link", name="Start with exercise 1").click()
    for at, one in enumerate(wanted):
        visit.page.wait_for_selector(f"[data-exercise='{one.id}']")
        assert f"Exercise {at + 1} of {count}: {one.id}" in visit.page.inner_text(".count")
        check_lines(visit.page)
        if at == 0:
            answer_with(visit.page, texts(one.answer))
        if at + 1 < count:
            visit.page.get_by_role("link", name="Next").last.click()
    visit.page.get_by_role("link", name="Whole sheet").click()
    assert f"1 of {count} right so far" in " ".join(visit.page.inner_text(".tallies").split())
    visit.page.get_by_role("link", name="Continue with exercise 2").click()
    visit.page.wait_for_selector(f"[data-exercise='{wanted[1].id}']")
