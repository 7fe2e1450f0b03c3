"""Results, as they are read and shown."""

import json
from pathlib import Path

import pytest

from manyheads.core.errors import StudyError
from manyheads.study.results import StudyResult, read_results

CONTENT = {
    "plan": {"name": "one<two"},
    "plan_sha256": "a" * 64,
    "data_sha256": "b" * 64,
    "environment": {},
    "runs": [
        {"model": "mlp", "seed": 3, "parameters": 12345},
        {"model": "gru", "seed": 3, "parameters": 67},
    ],
    "aggregate": {
        "mlp": {
            "test_loss": {"mean": 3.25, "sd": None},
            "test_perplexity": {"mean": 25.79, "sd": 0.5},
        },
        "gru": {"test_loss": {"mean": None, "sd": None}},
    },
    "paired": [
        {
            **{"model_a": "mlp", "model_b": "gru", "metric": "test_loss", "n": 3, "mean": -0.125},
            **{"t_interval": [-0.25, 0.5], "note": ""},
        },
        {
            **{"model_a": "gru", "model_b": "mlp", "metric": "test_loss", "n": 0, "mean": None},
            **{"t_interval": None, "note": "No seed can be compared."},
        },
        {"model_a": "mlp", "model_b": "gru", "metric": "validation_loss", "mean": 1.0},
    ],
}


def test_a_terminal_shows_means_deviations_and_differences() -> None:
    shown = str(StudyResult(path=Path(), content=CONTENT)).split("\n")
    assert shown[0] == "Study one<two, plan aaaaaaaaaaaa, data bbbbbbbbbbbb"
    assert shown[4].split() == ["mlp", "12,345", "1", "-", "3.2500", "25.79", "+-", "0.50", "-"]
    assert shown[5].split() == ["gru", "67", "1", "-", "-", "-", "-"]
    assert shown[-2:] == [
        "mlp minus gru: -0.1250 nats over 3 seeds, 95 % t interval -0.2500 to +0.5000",
        "gru minus mlp: No seed can be compared.",
    ]


def test_a_notebook_shows_a_table_with_names_escaped() -> None:
    shown = StudyResult(path=Path(), content=CONTENT)._repr_html_()
    assert "<td>25.79 +- 0.50</td>" in shown
    assert "one&lt;two" in shown
    assert "one<two" not in shown


def test_json_is_the_document() -> None:
    assert json.loads(StudyResult(path=Path(), content=CONTENT).to_json()) == CONTENT


def test_results_that_are_not_there_or_not_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="has no results: finish the study with --resume"):
        read_results(tmp_path)
    (tmp_path / "results.json").write_text('{"plan": {}}')
    with pytest.raises(StudyError, match="lacks plan_sha256, data_sha256, environment, runs, aggr"):
        read_results(tmp_path)
