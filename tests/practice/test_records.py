"""Progress: a file that only grows, and what is read from it."""

from pathlib import Path

from manyheads.learn.cards.reviews import read_reviews
from manyheads.practice.records import (
    FILE_NAME,
    Progress,
    add_event,
    next_task,
    progress,
    record_verdict,
)
from manyheads.practice.report import PracticeReport
from manyheads.verify.findings import Finding

WRONG = PracticeReport(
    task="scale",
    title="The scale",
    solved=False,
    findings=(Finding(fault="scale", check="numbers", severity="error", says="wrong"),),
    card="scale-which-width",
)
RIGHT = PracticeReport(task="scale", title="The scale", solved=True)


def test_verdicts_hints_and_solutions_are_counted(tmp_path: Path) -> None:
    record_verdict(WRONG, None, tmp_path)
    add_event(tmp_path, "hint", "scale", level=1)
    record_verdict(RIGHT, None, tmp_path)
    add_event(tmp_path, "solution", "scale")
    expected = Progress(solved=True, attempts=2, hints=1, saw_solution=True)
    assert progress(tmp_path) == {"scale": expected}
    assert next_task(["scale", "mask"], progress(tmp_path)) == "mask"


def test_reset_forgets_without_deleting(tmp_path: Path) -> None:
    record_verdict(RIGHT, None, tmp_path)
    before = (tmp_path / FILE_NAME).read_bytes()
    add_event(tmp_path, "reset", "scale")
    assert (tmp_path / FILE_NAME).read_bytes().startswith(before)
    assert progress(tmp_path) == {}
    record_verdict(WRONG, None, tmp_path)
    assert not progress(tmp_path)["scale"].solved
    add_event(tmp_path, "reset", None)
    assert progress(tmp_path) == {}


def test_a_wrong_answer_brings_its_card_back_once_a_day(tmp_path: Path) -> None:
    for _ in range(3):
        record_verdict(WRONG, None, tmp_path)
    reviews = read_reviews(tmp_path).reviews
    assert [(r.card, r.rating) for r in reviews] == [("scale-which-width", 1)]
