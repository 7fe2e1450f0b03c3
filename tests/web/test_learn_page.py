"""The learn view: every number is the engine's, and answers come before they are shown."""

import pytest

from manyheads.learn.attempts import LONGEST_TEXT
from manyheads.learn.explain_back import HALVES, topics
from manyheads.learn.quiz import question_ids, questions
from tests.web.browsing import Shown, Visit
from tests.web.learning import EXPLAIN, QUIZ, check_said, kept
from tests.web.reckoning import expected


def test_every_number_of_the_quiz_is_the_engines_number(visit: Visit) -> None:
    visit.open("#learn/quiz")
    seen = visit.shown(["#learn", "#learn/quiz"])
    for question in questions():
        place = f"#learn/quiz/{question.id}"
        visit.go(place)
        before = visit.shown([place])
        visit.page.fill(".free textarea", "I would say so.")
        for field in visit.page.locator("input.typed").all():
            field.fill("1/7")
        visit.page.get_by_role("button", name="Show the full answer").click()
        after = visit.shown([place])
        own = {part.quantity for part in question.answer.parts if not isinstance(part, str)}
        asked = {ask.quantity for ask in question.numbers}
        assert own | asked <= {number.quantity for number in after}
        assert len(after) > len(before)
        seen |= after
    check_said(seen)
    assert any(number.quantity.startswith("quiz:") for number in seen)


def test_every_number_of_explanations_is_the_engines_number(visit: Visit) -> None:
    visit.open("#learn/explain")
    for topic in topics():
        place = f"#learn/explain/{topic.id}"
        visit.go(place)
        for half in HALVES:
            box = visit.page.locator(f"[data-half={half}]")
            box.locator("textarea").first.fill("In my own words.")
            box.get_by_role("button", name="Compare it with the points").click()
            box.get_by_role("button", name="Find the first missing point").click()
            for _ in topic.points(half):
                box.locator(".gap textarea").fill("A guess.")
                box.get_by_role("button", name="Show a good answer").click()
                check_said(visit.shown([place]))
                box.get_by_role("button", name="Still missing").click()
            assert "still open" in box.inner_text()


def test_the_quiz_asks_first_and_keeps_what_was_answered(visit: Visit) -> None:
    question = questions()[2]
    visit.open(f"#learn/quiz/{question.id}")
    page = visit.page
    assert page.locator(".full, .points").count() == 0
    page.get_by_role("button", name="Show the full answer").click()
    assert page.locator(".full, .points").count() == 0
    assert "First" in page.locator(".question > [role=status]").inner_text()
    page.fill(".free textarea", "By the root of the head width.")
    page.locator("input.typed").nth(0).fill("1/2")
    page.get_by_role("button", name="Show the full answer").click()
    assert page.locator(".full").is_visible()
    assert page.locator(".mark").all_inner_texts() == ["right", "not answered"]
    assert kept(page, QUIZ)[-1]["covered"] == [None] * len(question.rubric)
    page.locator(".points input").nth(1).check()
    page.get_by_role("link", name="All questions").click()
    last = kept(page, QUIZ)[-1]
    assert last["question"] == question.id
    assert last["covered"] == [at == 1 for at in range(len(question.rubric))]
    assert (last["typed"], last["right"]) == (["1/2", ""], [True, None])
    assert f"1 of {len(question.rubric)} points" in page.locator(".entries li").nth(2).inner_text()
    assert "1 of 8 questions answered" in visit.open("#learn").page.inner_text("main")


def test_an_answer_that_is_not_finished_waits(visit: Visit) -> None:
    visit.open("#learn/quiz/scale")
    visit.page.fill(".free textarea", "Half a thought")
    visit.go("#study")
    visit.go("#learn/quiz/scale")
    assert visit.page.input_value(".free textarea") == "Half a thought"


def test_explanations_cover_points_one_gap_at_a_time(visit: Visit) -> None:
    topic = topics()[0]
    visit.open(f"#learn/explain/{topic.id}")
    box = visit.page.locator("[data-half=explain]")
    box.locator("textarea").fill("A head mixes values.")
    box.get_by_role("button", name="Compare it with the points").click()
    box.locator(".points input").nth(0).check()
    assert f"1 covered, {len(topic.explain_points) - 1} missing" in box.inner_text()
    box.get_by_role("button", name="Find the first missing point").click()
    gaps = box.locator(".gap")
    assert gaps.count() == 1
    assert str(topic.explain_points[1].follow_up) in " ".join(gaps.inner_text().split())
    assert "A good answer says" not in gaps.inner_text()
    gaps.locator("textarea").fill("The root of the width.")
    box.get_by_role("button", name="Show a good answer").click()
    assert "A good answer says" in gaps.inner_text()
    box.get_by_role("button", name="I can explain it now").click()
    assert str(topic.explain_points[2].follow_up) in " ".join(gaps.inner_text().split())
    visit.go("#learn/explain")
    records = kept(visit.page, EXPLAIN)
    assert records[-1]["covered"][:3] == [True, True, False]
    assert records[-1]["answers"][1] == "The root of the width."
    assert f"2 of {len(topic.explain_points)} points" in visit.page.inner_text(".entries li")


def test_long_and_odd_answers_are_kept_as_they_can_be(visit: Visit) -> None:
    visit.open(f"#learn/quiz/{question_ids()[0]}")
    text = "<b>\u202e\u0000\U0001f600 " + "long " * 4000
    visit.page.evaluate(
        """(text) => {
  const field = document.querySelector(".free textarea");
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}""",
        text,
    )
    for field in visit.page.locator("input.typed").all():
        field.fill("9" * 99)
    visit.page.get_by_role("button", name="Show the full answer").click()
    (record,) = kept(visit.page, QUIZ)
    assert record["answer"].startswith("<b>\u202e \U0001f600 long")
    assert len(record["answer"].encode("utf-16-le")) // 2 <= LONGEST_TEXT
    assert record["right"] == [False] * len(record["right"])
    assert visit.page.locator("main b").count() == 0


def test_each_page_has_an_address_and_its_title_the_focus(visit: Visit) -> None:
    visit.open("#learn")
    for page_name in ("quiz", "explain", "cards", "log"):
        visit.page.locator(f".tabs a[href='#learn/{page_name}']").click()
        assert visit.page.url.endswith(f"#learn/{page_name}")
        assert visit.page.locator(".tabs [aria-current=page]").count() == 1
        assert visit.page.evaluate("document.activeElement.id") == "learn-title"
        visit.page.go_back()
        visit.page.locator(".ways").wait_for()


def test_what_is_not_there_leads_to_the_nearest_page(visit: Visit) -> None:
    visit.open("#learn/nowhere")
    for fragment in ("quiz/none", "explain/none", "quiz/%00", "nowhere"):
        visit.go("#study")
        visit.go(f"#learn/{fragment}")
        assert visit.page.locator(".ways li, .entries li").count() >= 4, fragment


def test_a_number_that_is_not_the_engines_is_found() -> None:
    name = "quiz:scale.head-width"
    check_said({Shown(name, repr(expected(name)), "4", False)})
    with pytest.raises(AssertionError):
        check_said({Shown(name, repr(expected(name)), "5", False)})
