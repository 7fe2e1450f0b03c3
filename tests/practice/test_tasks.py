"""Every task: its file is complete, right answers are accepted, and wrong ones are not."""

import ast

import pytest

from manyheads.core.errors import LearnError
from manyheads.learn.cards.deck import deck
from manyheads.practice.constraints import CONSTRAINTS
from manyheads.practice.links import CARDS as CARDS_OF_FAULTS
from manyheads.practice.starting import starter, stub
from manyheads.practice.task import Task, task
from tests.practice.grid import TASKS, Wrong, judged, wrong_answers

RIGHT_ANSWERS, WRONG_ANSWERS = 6, 12
CARDS = {card.id for card in deck()}
WRONG = [wrong for one in TASKS for wrong in wrong_answers(one)]


@pytest.mark.parametrize("one", TASKS, ids=lambda one: one.name)
def test_task_is_complete(one: Task) -> None:
    right = [answer for answer in one.answers if answer.breaks is None]
    assert len(right) >= RIGHT_ANSWERS and len(wrong_answers(one)) >= WRONG_ANSWERS
    assert len(one.hints) == 3 and one.card in CARDS
    assert set(one.constraints) <= set(CONSTRAINTS)
    assert all(a.breaks in (None, *one.constraints) for a in one.answers)
    for wrong in wrong_answers(one):
        ast.parse(wrong.answer.with_mistake(wrong.mistake))
        assert wrong.mistake.says, wrong


@pytest.mark.parametrize("one", TASKS, ids=lambda one: one.name)
def test_frame_is_in_the_story(one: Task, root: object) -> None:
    texts = [p.read_text(encoding="utf-8") for p in root.glob("web/src/story/text/*.md")]  # type: ignore[attr-defined]
    assert any(f"{{#{one.frame}}}" in text or f"#{one.frame}" in text for text in texts)


@pytest.mark.parametrize("one", TASKS, ids=lambda one: one.name)
def test_starter_is_a_task_that_is_not_solved(one: Task) -> None:
    text = starter(one)
    assert f'judge("{one.name}", {one.entry})' in text and one.text.split()[0] in text
    report = judged(one, stub(one))
    assert not report.solved and "NotImplementedError" in report.findings[0].says


@pytest.mark.parametrize("one", TASKS, ids=lambda one: one.name)
def test_solution_is_right_and_one_mistake_is_not(one: Task) -> None:
    assert judged(one, one.solution.code).solved
    wrong = wrong_answers(one)[0]
    report = judged(one, wrong.answer.with_mistake(wrong.mistake))
    assert not report.solved and report.findings[0].says


@pytest.mark.slow
@pytest.mark.parametrize("one", TASKS, ids=lambda one: one.name)
def test_every_right_answer_is_accepted(one: Task) -> None:
    for answer in one.answers:
        report = judged(one, answer.code)
        broken = next((k.name for k in report.constraints if not k.kept), None)
        assert broken == answer.breaks, answer.style
        assert report.solved is (answer.breaks is None), (answer.style, report.findings)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_every_mistake_is_refused(wrong: Wrong) -> None:
    report = judged(wrong.task, wrong.answer.with_mistake(wrong.mistake))
    assert not report.solved, wrong.mistake
    assert report.findings[0].check != "raises", wrong.mistake  # a repair task shows numbers


def test_a_mistake_whose_text_is_missing_is_an_error() -> None:
    answer = task("scores").solution
    other = task("softmax").solution.mistakes[0]
    with pytest.raises(LearnError, match="is not in the answer"):
        answer.with_mistake(other)


def test_cards_of_faults_are_in_the_deck() -> None:
    assert set(CARDS_OF_FAULTS.values()) <= CARDS


def test_an_unknown_task_names_the_nearest() -> None:
    with pytest.raises(LearnError, match=r"task \(multihead\) does not exist: use multi-head"):
        task("multihead")
