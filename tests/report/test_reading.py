"""Reading results.json: what is taken from it, and which damage is refused."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from manyheads.core.errors import StudyError
from manyheads.report.reading import ReportData, read_study, trace_of
from manyheads.study.plan import plan
from tests.report.made_up import made_up_results, write_study

DOCUMENT = made_up_results(plan("own-recipe"), with_heads=True)


def changed(path: str, value: Any) -> dict[str, Any]:
    """The document with another value at a path such as runs.0.seed; None takes it away."""
    document = deepcopy(DOCUMENT)
    *parents, last = path.split(".")
    place: Any = document
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place[name]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return document


def test_a_study_is_read_from_its_folder(tmp_path: Path) -> None:
    document = write_study(tmp_path, "own-recipe")
    data = read_study(tmp_path)
    assert data.models == ("mlp", "one-head", "four-heads")
    assert data.seeds == (11, 29, 47)
    assert data.label == f"plan own-recipe {document['plan_sha256'][:12]}"
    assert data.mean("mlp", "test_loss") == document["aggregate"]["mlp"]["test_loss"]["mean"]
    assert data.paired == document["paired"]


def test_models_come_in_the_order_of_the_plan() -> None:
    document = deepcopy(DOCUMENT)
    document["runs"].reverse()
    assert ReportData(document=document, source="").models == ("mlp", "one-head", "four-heads")


def test_the_trace_is_read_field_by_field() -> None:
    run = {"trace": [{"step": 5, "train_loss": 2}, {"step": 9, "train_loss": None}]}
    assert trace_of(run, "train_loss") == [(5, 2.0)]
    assert trace_of(run) == []


def test_optional_parts_may_be_absent() -> None:
    document = deepcopy(DOCUMENT)
    for name in ("data", "aggregate", "paired"):
        del document[name]
    document["plan"] = {}
    data = ReportData(document=document, source="")
    assert (data.name, data.paired, data.facts("data")) == ("unnamed", [], {})


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("plan", None, "plan must be a dict"),
        ("data_sha256", 5, "data_sha256 must be a str"),
        ("runs", [], "runs must not be empty"),
        ("runs", {}, "runs must be a list"),
        ("runs", [3], r"runs\[0\] must be an object"),
        ("runs.2.model", 7, r"runs\[2\].model must be a str"),
        ("runs.2.model", "a\x1b[31m", r"runs\[2\].model has control characters"),
        ("plan.name", "a\nb", "plan has a name with control characters"),
        ("runs.0.seed", "x", r"runs\[0\].seed must be a int"),
        ("runs.1.trace", None, r"runs\[1\].trace must be a list"),
        ("runs.1.trace", [3], r"runs\[1\].trace must be a list of objects"),
        ("runs.1.trace", [{}], r"runs\[1\].trace must have a step"),
        ("runs.1.seconds", None, r"runs\[1\].seconds must be a finite number"),
        ("runs.0.test_loss", float("nan"), r"runs\[0\].test_loss must be a finite number"),
        ("runs.0.test_loss", True, r"runs\[0\].test_loss must be a finite number"),
        ("runs.3.heads", 4, r"runs\[3\].heads must be an object"),
        ("runs.3.heads.greedy", None, r"heads.greedy.losses must be a list"),
        ("runs.3.heads.removal.losses", ["x"], r"heads.removal.losses must be a list"),
        ("plan.models", 3, "plan.models must be a list of tables"),
        ("plan.comparisons", [{}], "plan.comparisons must name first and second"),
        ("aggregate.mlp.test_loss.mean", 1.5, "aggregate has mean test_loss 1.5 for mlp"),
    ],
)
def test_a_damaged_document_is_refused_by_name(path: str, value: Any, said: str) -> None:
    with pytest.raises(StudyError, match=rf"file \(here\) is damaged: .*{said}"):
        ReportData(document=changed(path, value), source="here")


def test_no_folder_no_results_and_no_json_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"folder \(.*nowhere\) does not exist"):
        read_study(tmp_path / "nowhere")
    with pytest.raises(StudyError, match=r"has no results.json: finish the study"):
        read_study(tmp_path)
    (tmp_path / "results.json").write_text('{"plan": ')
    with pytest.raises(StudyError, match=r"results.json\) is missing or damaged"):
        read_study(tmp_path)
    (tmp_path / "results.json").write_text(json.dumps([1]))
    with pytest.raises(StudyError, match="one JSON object"):
        read_study(tmp_path)
