"""Predictions: judged against the engine, kept one by one; and what each experiment claims."""

from fractions import Fraction
from pathlib import Path

import pytest

from manyheads.core.errors import LearnError, WorksheetError
from manyheads.learn.predictions import (
    FILE,
    Prediction,
    direction_of,
    judge,
    keep_prediction,
    read_predictions,
    tally_of,
)
from manyheads.learn.worksheet_tries import Try, tries_of, try_named
from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.library import worksheet, worksheet_names
from manyheads.worksheets.tensors import solve_float

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


@pytest.mark.parametrize(
    ("prediction", "is_right"),
    [
        ("1/3", True),
        ("0.333", True),
        ("lower", True),
        (" Lower ", True),
        ("l", True),
        ("higher", False),
        ("same", False),
        ("1/2", False),
        ("0.34", False),
    ],
)
def test_a_prediction_is_judged_by_what_it_says(prediction: str, is_right: bool) -> None:
    judged = judge(prediction, HALF, THIRD)
    assert judged.right is is_right
    assert "1/2 = 0.500" in judged.says and "1/3 = 0.333 (lower)" in judged.says


def test_directions() -> None:
    assert direction_of(HALF, HALF) == "same"
    assert direction_of(THIRD, HALF) == "higher"
    assert direction_of(HALF, -HALF) == "lower"


@pytest.mark.parametrize("text", ["", "up?", "1/0", "\x1b[2J", "x" * 20_000, "0.33", "33%"])
def test_what_is_no_prediction_is_refused(text: str) -> None:
    with pytest.raises(LearnError, match=r"^answer \("):
        judge(text, HALF, THIRD)


def made(right: bool | None, prediction: str = "lower") -> Prediction:
    return Prediction(
        where="worksheet:two-routes",
        try_name="zero-query",
        prediction=prediction,
        outcome="1/3",
        right=right,
    )


def test_the_log_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    kept = [made(True), made(False, "größer"), made(None)]
    for one in kept:
        keep_prediction(tmp_path, one)
    assert list(read_predictions(tmp_path)) == kept
    assert tally_of(kept) == (1, 2, 3)


def test_a_record_that_is_no_prediction_is_named(tmp_path: Path) -> None:
    keep_prediction(tmp_path, made(True))
    with (tmp_path / FILE).open("a") as stream:
        stream.write('{"where": 1}\n')
    with pytest.raises(LearnError, match=r"damaged in record 2 .*nothing was changed"):
        read_predictions(tmp_path)


ALL = [
    pytest.param(one, id=f"{name}-{sequence}-{one.name}")
    for name in worksheet_names()
    for sequence in worksheet(name).sequence_names
    for one in tries_of(worksheet(name), sequence)
]


@pytest.mark.parametrize("one", ALL)
def test_outcomes_against_the_layer_in_floats(one: Try) -> None:
    solved = solve_float(one.changed, one.quantity.sequence)
    measured = solved[one.quantity.field.name][one.quantity.index]
    assert float_of(one.after) == pytest.approx(measured, rel=1e-12, abs=1e-14)
    assert one.label in one.question and one.change in one.question
    assert one.explain(one.after).endswith(".")


@pytest.mark.parametrize("name", worksheet_names())
def test_what_the_explanations_claim(name: str) -> None:
    sheet = worksheet(name)
    given = sheet.solve()
    tries = {one.name: one for one in tries_of(sheet)}
    count = len(given.tokens)
    assert tries["zero-query"].after == Fraction(1, count)
    for h in range(sheet.num_heads):
        one = tries[f"without-head-{h + 1}"]
        part = given["head_contributions"][h][one.quantity.index]
        assert float_of(one.before) - float_of(one.after) == pytest.approx(part)
        assert part != 0
    assert direction_of(tries["no-mask-last"].before, tries["no-mask-last"].after) == "same"
    assert direction_of(tries["no-mask-first"].before, tries["no-mask-first"].after) != "same"
    edit, factor = tries["edit-w-o"], given["concat"][count - 1, 0]
    assert float_of(edit.after) - float_of(edit.before) == pytest.approx(factor)


def test_a_worksheet_with_one_head_and_no_mask_has_fewer_experiments() -> None:
    sheet = worksheet("two-routes").edit({"is_causal": False})
    names = [one.name for one in tries_of(sheet)]
    assert names == ["zero-query", "without-head-1", "without-head-2", "one-wide-head", "edit-w-o"]


def test_unknown_experiments_and_sentences_are_named() -> None:
    sheet = worksheet("two-routes")
    with pytest.raises(
        LearnError, match=r"try \(zero\) is not an experiment of two-routes: use zero-query,"
    ):
        try_named(sheet, "zero")
    with pytest.raises(WorksheetError, match=r"sequence \(x\)"):
        tries_of(sheet, "x")
