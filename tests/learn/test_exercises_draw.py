"""Exercises are drawn from a seed, and their numbers equal those of independent code."""

import json
from fractions import Fraction
from functools import cache
from itertools import product

import pytest

from benchmarks.misconceptions import ANSWERS, answer_of
from manyheads.core.errors import LearnError
from manyheads.faults.catalogue import FAULT_KINDS
from manyheads.learn.exercises import KINDS, exercise
from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Exercise, Kind, slip
from manyheads.learn.exercises.kinds import (
    LARGEST_SEED,
    MAX_COUNT,
    MOST_TRIES,
    exercise_sheet,
    is_fair,
)
from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.numbers import exact_text, parse_number

SEEDS = range(1, 5)


def floats(numbers: tuple[object, ...]) -> list[float]:
    """Exact numbers as floats."""
    return [float_of(number) for number in numbers]


drawn_once = cache(exercise)


def sample() -> list[Exercise]:
    """Some exercises of every kind."""
    return [drawn_once(kind, seed) for kind in KINDS for seed in SEEDS]


def test_there_are_at_least_twelve_kinds_with_streams_of_their_own() -> None:
    assert len(KINDS) >= 12
    assert len({kind.stream for kind in KINDS.values()}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_answers_and_misconceptions_against_faulty_pipelines_and_real_modules(kind: str) -> None:
    seen = set()
    for seed in SEEDS:
        drawn = drawn_once(kind, seed)
        rows = {"right": drawn.answer} | {item.name: item.values for item in drawn.misconceptions}
        for name, values in rows.items():
            expected = answer_of(drawn, name)
            assert floats(values) == pytest.approx(expected, rel=1e-9, abs=1e-9), (drawn.id, name)
        seen |= set(rows)
    assert seen <= set(ANSWERS[kind])
    assert len(seen) >= 5


def test_misconceptions_name_faults_of_the_catalogue_and_speak_in_one_paragraph() -> None:
    for drawn in sample():
        names = [item.name for item in drawn.misconceptions]
        assert len(set(names)) == len(names)
        for item in drawn.misconceptions:
            if item.fault is not None:
                assert item.fault in FAULT_KINDS
                assert item.name.partition(":")[0] == item.fault
            else:
                assert item.name not in FAULT_KINDS
            assert item.says.startswith("That is ") or item.says.startswith("The heads are right")
            assert item.says.endswith(".")
            assert "\n" not in item.says and len(item.says) < 240


def test_the_same_seed_gives_the_same_exercise_and_another_another() -> None:
    for kind in KINDS:
        assert exercise(kind, 1).to_text() == drawn_once(kind, 1).to_text()
        assert len({drawn_once(kind, seed).to_text() for seed in SEEDS}) == len(SEEDS)


def test_json_form_is_complete_and_its_numbers_are_read_back() -> None:
    for drawn in sample():
        document = json.loads(drawn.to_text())
        assert list(document) == [
            *("id", "kind", "seed", "title", "prompt", "given", "asks"),
            *("answer", "misconceptions", "working", "worksheet"),
        ]
        assert "answer" not in drawn.to_json(with_answer=False)
        assert [parse_number(text) for text in document["answer"]] == list(drawn.answer)
        tables = [cell for table in document["given"] for row in table["rows"] for cell in row]
        assert not [cell for cell in tables if cell.startswith("~")]
        for item, given in zip(document["misconceptions"], drawn.misconceptions, strict=True):
            for text, value in zip(item["values"], given.values, strict=True):
                read = float(text[1:]) if text[0] == "~" else float_of(parse_number(text))
                assert read == pytest.approx(float_of(value), rel=1e-14)


def test_answers_are_small_and_exact() -> None:
    for drawn in sample():
        assert len(drawn.asks) == len(drawn.answer) >= 2
        assert all(len(exact_text(number)) <= 12 for number in drawn.answer), drawn.id


def test_weights_are_rational_and_sum_to_one() -> None:
    for kind in ("weight-row", "mask-rows"):
        for seed in SEEDS:
            answer = drawn_once(kind, seed).answer
            assert all(type(number) is Fraction for number in answer)
            assert sum(answer) == 1


def test_every_seed_is_drawn_within_few_tries() -> None:
    for kind, seed in product(KINDS.values(), range(100, 105)):
        draws = Draws(seed, kind.stream)
        tries = iter(kind.draw(draws) for _ in range(25))
        assert any(draft is not None and is_fair(draft) for draft in tries), (kind.name, seed)


@pytest.mark.parametrize(("needed", "is_drawn"), [(MOST_TRIES, True), (MOST_TRIES + 1, False)])
def test_a_draw_is_tried_a_limited_number_of_times(
    monkeypatch: pytest.MonkeyPatch, needed: int, is_drawn: bool
) -> None:
    tries = iter(range(1, needed + 1))
    kind = Kind(
        name="rare", title="", summary="", stream=1,
        draw=lambda _: draft([1, 2]) if next(tries) == needed else None,
    )  # fmt: skip
    monkeypatch.setitem(KINDS, "rare", kind)
    if is_drawn:
        assert exercise("rare", 3).id == "rare/3"
    else:
        with pytest.raises(LearnError, match=r"seed \(3\) gives no rare exercise"):
            exercise("rare", 3)


@pytest.mark.parametrize("count", [1, MAX_COUNT])
def test_a_sheet_takes_the_kinds_in_turn_and_the_next_seed_each_round(count: int) -> None:
    sheet = [one.id for one in exercise_sheet(("byte-count", "grouped-heads"), 7, count)]
    assert len(sheet) == count
    assert sheet[:3] == ["byte-count/7", "grouped-heads/7", "byte-count/8"][:count]


def test_the_largest_seed_is_drawn() -> None:
    assert exercise("score", LARGEST_SEED).seed == LARGEST_SEED


@pytest.mark.parametrize("seed", [-1, LARGEST_SEED + 1, True, 10**4000])
def test_a_seed_beyond_the_page_is_refused(seed: int) -> None:
    with pytest.raises(LearnError, match=r"seed \(.{1,40}\) must be a whole number from 0"):
        exercise("score", seed)


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LearnError, match=r"kind \('scores'\) does not exist: use one of score,"):
        exercise("scores", 1)


def draft(answer: list[int], *wrong: list[int]) -> Draft:
    """A draft with whole numbers."""
    items = tuple(slip(f"slip {i}", [Fraction(n) for n in row], "") for i, row in enumerate(wrong))
    return Draft(
        prompt="", given=(), asks=("a", "b"), answer=tuple(Fraction(n) for n in answer),
        misconceptions=items, working=(),
    )  # fmt: skip


def test_a_draft_is_unfair_where_a_misconception_gives_the_right_numbers() -> None:
    assert is_fair(draft([1, 2], [1, 3], [2, 2]))
    assert not is_fair(draft([1, 2], [1, 2]))
    assert not is_fair(draft([1, 2], [1, 3], [1, 3]))
    assert is_fair(draft([1, 2], [1, 2, 3]))


@pytest.mark.parametrize(("wrong", "fair"), [(1009, False), (1010, False), (1012, True)])
def test_a_draft_is_unfair_where_no_number_differs_by_more_than_a_hundredth(
    wrong: int, fair: bool
) -> None:
    assert is_fair(draft([1000, 1000], [1000, wrong])) is fair
    assert is_fair(draft([-1000, 0], [-wrong, 0])) is fair


def test_texts_fit_80_columns() -> None:
    for drawn in sample():
        text = f"{drawn.question_text()}\n{drawn.working_text()}"
        assert max(len(line) for line in text.splitlines()) <= 80, drawn.id
