"""What the numbers do not show follows from the study."""

from copy import deepcopy
from typing import Any

import pytest

from manyheads.report.cautions import cautions, is_frozen_protocol, recipe_notice
from manyheads.report.reading import ReportData
from manyheads.study.plan import plan
from manyheads.study.stats import aggregate
from tests.report.made_up import made_up_results

DOCUMENT = made_up_results(plan("three-models"))


def said_of(document: dict[str, Any]) -> str:
    document["aggregate"] = aggregate(document["runs"])
    return "\n".join(cautions(ReportData(document=document, source="")))


def data_of(name: str) -> ReportData:
    return ReportData(document=made_up_results(plan(name)), source="")


def test_seeds_data_sizes_and_vocabulary_are_named() -> None:
    said = said_of(deepcopy(DOCUMENT))
    assert "3 seeds a model" in said
    assert "agree in 25 % of studies" in said
    assert "1,540 stories with 320,000 words" in said
    assert "from 1,321,120 parameters (one-head) to 2,332,832 (mlp)" in said
    assert "1.19 % of the test words" in said
    assert "3 comparisons were planned" in said
    assert "learning rate of every model was set by the plan and not tuned" in said


def test_a_loss_that_rises_after_its_best_is_overfitting() -> None:
    assert "In 3 of 3 runs of mlp (by up to 0.094 nats)" in said_of(deepcopy(DOCUMENT))


def test_a_loss_that_falls_to_the_end_is_not_and_that_is_said() -> None:
    document = deepcopy(DOCUMENT)
    for run in document["runs"]:
        run["trace"] = run["trace"][:6]
        run["steps"] = run["selected_step"]
    said = said_of(document)
    assert "rose again" not in said
    assert "In most runs of every model the last step was the best" in said


def test_one_seed_tells_nothing_about_chance() -> None:
    document = deepcopy(DOCUMENT)
    document["runs"] = [run for run in document["runs"] if run["seed"] == 11]
    said = said_of(document)
    assert "1 seed a model. Nothing here tells" in said
    assert "Missing: mlp seed 29, mlp seed 47, " in said


def test_a_learning_rate_at_the_edge_of_its_candidates_is_named() -> None:
    document = deepcopy(DOCUMENT)
    losses = [{"learning_rate": rate, "validation_loss": 4.0} for rate in (0.1, 0.2, 0.3)]
    document["learning_rates"] = {
        "mlp": {"chosen": 0.3, "candidates": losses},
        "one-head": {"chosen": 0.2, "candidates": losses},
    }
    assert "For mlp the choice is the smallest or largest candidate" in said_of(document)


def test_generated_stories_are_no_language() -> None:
    assert "no natural language" in "\n".join(cautions(data_of("smoke")))
    document = made_up_results(plan("smoke"))
    document["data"]["source"] = "file mine.txt"
    assert "no natural language" not in said_of(document)


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
    assert "mlp, one-head and four-heads bear the names" in recipe_notice(data_of("own-recipe"))
    assert recipe_notice(data_of("three-models")) == recipe_notice(data_of("head-count")) == ""


def test_a_plan_that_only_bears_the_name_is_not_the_frozen_protocol() -> None:
    document = deepcopy(DOCUMENT)
    document["plan"]["protocol"]["steps"] = 60
    data = ReportData(document=document, source="")
    assert not is_frozen_protocol(data)
    assert "another recipe" in recipe_notice(data)
