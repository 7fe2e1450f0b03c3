"""Repair tasks: drawn by a seed, wrong at first, and any right code repairs them."""

import pytest

from manyheads.core.errors import LearnError
from manyheads.practice.repairs import any_task, broken_code, drawn_mistake, repair_names
from tests.practice.grid import judged

SEEDS = range(1, 6)


@pytest.mark.parametrize("name", [repair_names()[0], "repair-multi-head"])
def test_a_repair_task_is_wrong_until_it_is_repaired(name: str) -> None:
    for seed in SEEDS:
        repair = any_task(name, seed)
        report = judged(repair, broken_code(repair))
        assert not report.solved and report.findings[0].where is None, (name, seed)
    assert judged(any_task(name, 1), any_task(name, 1).solution.code).solved


@pytest.mark.slow
@pytest.mark.parametrize("name", repair_names())
def test_renaming_changes_no_verdict(name: str) -> None:
    for seed in range(1, 13):
        repair = any_task(name, seed)
        assert not judged(repair, broken_code(repair)).solved, (name, seed)


def test_a_seed_gives_one_code_and_seeds_differ() -> None:
    codes = [broken_code(any_task("repair-multi-head", seed)) for seed in range(1, 9)]
    assert codes[0] == broken_code(any_task("repair-multi-head", 1))
    assert len(set(codes)) > 4


def test_hints_name_the_mistake() -> None:
    repair = any_task("repair-scale", 2)
    mistake, _ = drawn_mistake(repair)
    assert mistake.old in repair.hints[2]


def test_only_repair_tasks_take_a_seed() -> None:
    with pytest.raises(LearnError, match=r"--seed \(3\) belongs to repair tasks"):
        any_task("scale", 3)
