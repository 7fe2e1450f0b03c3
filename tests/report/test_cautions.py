"""What the numbers do not show follows from the study."""

from copy import deepcopy
from typing import Any

import pytest

from manyheads.report.cautions import RISE, cautions, is_frozen_protocol, recipe_notice
from manyheads.report.reading import ReportData
from manyheads.study.plan import plan
from manyheads.study.stats import aggregate
from tests.report.made_up import made_up_results, on_file

DOCUMENT = made_up_results(on_file("three-models"))


def said_of(document: dict[str, Any]) -> str:
    document["aggregate"] = aggregate(document["runs"])
    return "\n".join(cautions(ReportData(document=document, source="")))


def data_of(name: str) -> ReportData:
    return ReportData(document=made_up_results(plan(name)), source="")


def test_seeds_data_sizes_and_vocabulary_are_named() -> None:
    said = said_of(deepcopy(DOCUMENT))
    assert "3 seeds per model" in said
    assert "causes that in 25 % of studies" in said
    assert "1,540 training stories with 320,000 target words" in said
    assert "from 1,321,120 parameters (one-head) to 2,332,832 (mlp)" in said
    assert "1.19 % of the test words" in said
    assert "3 comparisons were planned" in said
    assert "learning rate of every model was fixed by the plan and not tuned" in said


def test_a_loss_that_rises_after_its_best_is_overfitting() -> None:
    assert "In 3 of 3 runs of mlp (by up to 0.094 nats)" in said_of(deepcopy(DOCUMENT))


def test_a_loss_that_falls_to_the_end_is_not_and_that_is_said() -> None:
    document = deepcopy(DOCUMENT)
    for run in document["runs"]:
        run["trace"] = run["trace"][:6]
        run["steps"] = run["selected_step"]
    said = said_of(document)
    assert "overfitted" not in said
    assert (
        "In 3 of 3 runs of mlp, 3 of 3 runs of one-head and 3 of 3 runs of four-heads the" in said
    )
    assert "selected step is that of the last validation: more steps would probably" in said


def test_one_seed_tells_nothing_about_chance() -> None:
    document = deepcopy(DOCUMENT)
    document["runs"] = [run for run in document["runs"] if run["seed"] == 11]
    said = said_of(document)
    assert "1 seed per model. One seed cannot show" in said
    assert "comparisons were planned" not in said
    assert "are missing: mlp seed 29, mlp seed 47, " in said


def test_a_learning_rate_at_the_edge_of_its_candidates_is_named() -> None:
    document = deepcopy(DOCUMENT)
    losses = [{"learning_rate": rate, "validation_loss": 4.0} for rate in (0.1, 0.2, 0.3)]
    document["learning_rates"] = {
        "mlp": {"chosen": 0.3, "candidates": losses},
        "one-head": {"chosen": 0.2, "candidates": losses},
    }
    assert "For mlp the chosen rate is the smallest or largest candidate" in said_of(document)


def test_generated_stories_are_no_language() -> None:
    assert "not natural language" in "\n".join(cautions(data_of("smoke")))
    document = made_up_results(plan("smoke"))
    document["data"]["source"] = "file mine.txt"
    assert "not natural language" not in said_of(document)


def test_removed_heads_are_mentioned_only_where_heads_were_removed() -> None:
    assert "Heads were removed" not in said_of(deepcopy(DOCUMENT))
    with_heads = made_up_results(plan("own-recipe"), with_heads=True)
    assert "Heads were removed" in said_of(with_heads)


@pytest.mark.parametrize(
    ("name", "is_frozen"), [("three-models", True), ("own-recipe", False), ("head-count", False)]
)
def test_the_frozen_protocol_is_known_by_its_content(name: str, is_frozen: bool) -> None:
    assert is_frozen_protocol(data_of(name)) is is_frozen


def test_another_recipe_of_the_same_models_says_so() -> None:
    assert "mlp, one-head and four-heads have the names" in recipe_notice(data_of("own-recipe"))
    assert recipe_notice(data_of("three-models")) == recipe_notice(data_of("head-count")) == ""


def test_a_plan_that_only_bears_the_name_is_not_the_frozen_protocol() -> None:
    document = deepcopy(DOCUMENT)
    document["plan"]["protocol"]["steps"] = 60
    data = ReportData(document=document, source="")
    assert not is_frozen_protocol(data)
    assert "another recipe" in recipe_notice(data)


def seeds_of(number: int) -> dict[str, Any]:
    return made_up_results(plan("three-models").with_seeds(tuple(range(number))))


def test_fewer_than_six_seeds_are_called_few() -> None:
    assert "With 5 seeds a bootstrap interval is too narrow" in said_of(seeds_of(5))
    assert "is too narrow" not in said_of(seeds_of(6))


def test_a_rise_counts_from_its_limit_on() -> None:
    for rise, counts in ((RISE * 1.001, True), (RISE * 0.999, False)):
        document = deepcopy(DOCUMENT)
        for run in document["runs"]:
            run["trace"] = [
                {"step": step, "train_loss": 3.0, "validation_loss": loss, "learning_rate": 0.1}
                for step, loss in ((1, 3.0), (2, 3.0 + rise))
            ]
        assert ("overfitted" in said_of(document)) is counts


@pytest.mark.parametrize(("place", "says"), [(0, "first validation"), (-1, "last validation")])
def test_each_run_that_is_selected_at_an_end_is_counted(place: int, says: str) -> None:
    document = seeds_of(4)
    assert "validation:" not in said_of(document)
    run = next(run for run in document["runs"] if (run["model"], run["seed"]) == ("one-head", 2))
    run["selected_step"] = run["trace"][place]["step"]
    said = said_of(document)
    assert f"In 1 of 4 runs of one-head the selected step is that of the {says}: " in said
    assert said.count("validation:") == 1


def test_many_models_at_an_end_are_summed() -> None:
    document = made_up_results(plan("head-count"))
    for run in document["runs"]:
        run["selected_step"] = run["trace"][0]["step"]
    assert "In 65 of 65 runs the selected step is that of the first" in said_of(document)


def test_a_study_that_stops_early_says_so() -> None:
    document = deepcopy(DOCUMENT)
    document["plan"]["protocol"]["stop_after"] = 900
    assert "ended 900 steps after its lowest validation loss" in said_of(document)
    del document["plan"]["protocol"]["stop_after"]
    assert "same number of steps" in said_of(document)


@pytest.mark.parametrize("chosen", [0.1, 0.3])
def test_both_ends_of_the_candidates_are_edges(chosen: float) -> None:
    document = deepcopy(DOCUMENT)
    losses = [{"learning_rate": rate, "validation_loss": 4.0} for rate in (0.1, 0.2, 0.3)]
    document["learning_rates"] = {"mlp": {"chosen": chosen, "candidates": losses}}
    assert "For mlp the chosen rate" in said_of(document)
    document["learning_rates"]["mlp"]["chosen"] = 0.2
    assert "the chosen rate" not in said_of(document)


def test_up_to_twelve_missing_runs_are_named_and_more_are_counted() -> None:
    for kept, words in ((3, "missing: mlp seed 3, "), (2, "missing: 13 runs.")):
        document = seeds_of(5)
        document["runs"] = document["runs"][:kept]
        assert words in said_of(document)


def test_two_comparisons_are_several_and_one_is_not() -> None:
    document = deepcopy(DOCUMENT)
    document["plan"]["comparisons"] = document["plan"]["comparisons"][:2]
    assert "2 comparisons were planned" in said_of(document)
    document["plan"]["comparisons"] = document["plan"]["comparisons"][:1]
    assert "comparisons were planned" not in said_of(document)
