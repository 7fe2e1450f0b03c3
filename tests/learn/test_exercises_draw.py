"""Exercises are drawn from a seed, and their numbers are those of somebody else's sum."""

import json
from fractions import Fraction
from functools import cache

import pytest

from benchmarks.misconceptions import COUNTED, SHOWN, wrong_answer
from manyheads.core.errors import LearnError
from manyheads.faults.catalogue import FAULT_KINDS
from manyheads.learn.exercises import KINDS, exercise
from manyheads.learn.exercises.drawing import Draws
from manyheads.learn.exercises.form import Draft, Exercise, shown, slip
from manyheads.learn.exercises.kinds import LARGEST_SEED, is_fair
from manyheads.learn.exercises.sheet_text import exercise_text, working_text
from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.numbers import exact_text, parse_number
from tests.learn.exercise_oracles import RIGHT

SEEDS = range(5)


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
def test_answer_against_an_independent_sum(kind: str) -> None:
    for seed in SEEDS:
        drawn = drawn_once(kind, seed)
        expected = [float(number) for number in RIGHT[kind](drawn)]
        assert floats(drawn.answer) == pytest.approx(expected, rel=1e-9, abs=1e-9), drawn.id


@pytest.mark.parametrize("kind", KINDS)
def test_misconceptions_against_faulty_pipelines_and_real_modules(kind: str) -> None:
    seen = set()
    for seed in SEEDS:
        drawn = drawn_once(kind, seed)
        for item in drawn.misconceptions:
            seen.add(item.name)
            expected = wrong_answer(drawn, item.name)
            assert floats(item.values) == pytest.approx(expected, rel=1e-9, abs=1e-9), (
                drawn.id,
                item.name,
            )
    assert seen <= set((SHOWN | COUNTED)[kind])
    assert len(seen) >= 4


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
        assert exercise(kind, 5).to_text() == exercise(kind, 5).to_text()
        assert len({drawn_once(kind, seed).to_text() for seed in SEEDS}) == len(SEEDS)


# Drawn once; a change here changes every sheet that a teacher has given out.
DRAWN = {
    "score": "3, 1/2, -3/2",
    "weight-row": "2/11, 8/11, 1/11",
    "message": "94/7, 125/7, 136/7",
    "concat": "38/11, 38/11, 60/11, 13/9, -23/9, 46/9",
    "projected-output": "1/3, 7/2, -11/3",
    "contribution": "0, -24/31, -10",
    "zero-query": "5, 13/3, -7/3",
    "ablation": "-16, 3/2, -3/4",
    "parameter-count": "2520, 4150",
    "byte-count": "160000, 358400",
    "mask-rows": "0, 2/5, 3/5, 0, 0",
    "grouped-heads": "3, 3, 4, 4, 56",
    "layout-conversion": "44, 12",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_keeps_its_exercise(kind: str) -> None:
    assert shown(exercise(kind, 7).answer) == DRAWN[kind]


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


@pytest.mark.parametrize("kind", KINDS)
def test_every_seed_is_drawn_within_few_tries(kind: str) -> None:
    for seed in range(100, 110):
        draws = Draws(seed, KINDS[kind].stream)
        tries = iter(KINDS[kind].draw(draws) for _ in range(25))
        assert any(draft is not None and is_fair(draft) for draft in tries), seed


def test_the_largest_seed_is_drawn() -> None:
    assert exercise("score", LARGEST_SEED).seed == LARGEST_SEED


@pytest.mark.parametrize("seed", [-1, LARGEST_SEED + 1, True, 10**4000])
def test_a_seed_beyond_the_page_is_refused(seed: int) -> None:
    with pytest.raises(LearnError, match=r"seed \(.{1,40}\) must be a whole number from 0"):
        exercise("score", seed)


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LearnError, match=r"kind \('scores'\) is not known: use one of score,"):
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
    assert not is_fair(draft([1000, 2000], [1001, 2002]))  # three digits do not tell them apart
    assert is_fair(draft([1, 2], [1, 2, 3]))


def test_texts_fit_80_columns() -> None:
    for drawn in sample():
        text = f"{exercise_text(drawn)}\n{working_text(drawn)}"
        assert max(len(line) for line in text.splitlines()) <= 80, drawn.id
