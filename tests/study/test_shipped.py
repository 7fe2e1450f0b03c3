"""Shipped results: they are of the plans of their names, and anyone can repeat them."""

from pathlib import Path

import pytest

from manyheads.study.machine import Machine, environment, join_crew
from manyheads.study.plan import plan
from manyheads.study.results import StudyResult, shipped_results
from manyheads.study.run import run_study
from manyheads.study.site import Event

SHIPPED = ("three-models", "own-recipe", "own-recipe-stories", "head-count")
SPARSE = frozenset({"head-count"})
"""Studies that were run before the rule of ten validations per epoch."""
RUN, VALIDATIONS = "four-heads-seed11", 2
SAME = ("torch", "system", "processor", "precision", "device", "threads")
"""Facts of the environment that determine every bit."""


class EnoughError(Exception):
    """The wanted validations were seen."""


@pytest.mark.parametrize("name", SHIPPED)
def test_the_plan_of_shipped_results_is_the_built_in_one(name: str) -> None:
    content = shipped_results(name).content
    held = plan(content["plan"]["name"]).with_seeds(tuple(content["plan"]["seeds"]))
    if "sha256" in content["plan"]["data"]:
        held = held.with_data(content["plan"]["data"]["source"], content["data_sha256"])
    assert content["plan"] == held.to_dict()
    assert content["plan_sha256"] == held.sha256


@pytest.mark.parametrize("name", SHIPPED)
def test_runs_are_validated_ten_times_an_epoch(name: str) -> None:
    content = shipped_results(name).content
    protocol = content["plan"]["protocol"]
    epoch = content["data"]["num_targets"]["train"] / protocol["batch_targets"]
    assert (protocol["validate_every"] <= epoch / 10) is (name not in SPARSE)


def first_validations(result: StudyResult, out: Path) -> list[tuple[int, float, float]]:
    """Train one run of the study again, up to its first validations."""
    seen: list[tuple[int, float, float]] = []

    def report(event: Event) -> None:
        if event.kind == "validation":
            assert event.train_loss is not None
            assert event.validation_loss is not None
            seen.append((event.step, event.train_loss, event.validation_loss))
            if len(seen) == VALIDATIONS:
                raise EnoughError

    with pytest.raises(EnoughError):
        run_study(result.content["plan"]["name"], out=out, only=(RUN,), report=report)
    return seen


@pytest.mark.slow
def test_a_shipped_run_is_repeated_digit_by_digit(tmp_path: Path) -> None:
    """On another processor or with another torch, the first five digits are compared."""
    result = shipped_results("own-recipe-stories")
    run = next(run for run in result.runs if f"{run['model']}-seed{run['seed']}" == RUN)
    expected = [
        (entry["step"], entry["train_loss"], entry["validation_loss"])
        for entry in run["trace"][:VALIDATIONS]
    ]
    seen = first_validations(result, tmp_path / "again")
    here, there = environment(Machine(), join_crew(Machine())), result.content["environment"]
    if all(here.get(name) == there.get(name) for name in SAME):
        assert seen == expected
    else:
        for found, wanted in zip(seen, expected, strict=True):
            assert found == pytest.approx(wanted, rel=1e-5)
