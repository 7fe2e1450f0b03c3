"""The study view's numbers are those of the shipped results, under the same paths."""

import json
from pathlib import Path
from typing import Any

import pytest

from manyheads.core.errors import StudyError
from manyheads.report.cautions import cautions
from manyheads.report.reading import ReportData
from manyheads.study.plan import Plan, plan
from tests.report.made_up import made_up_results, on_file, write_study
from tools.page.study import ORDER, SHIPPED, shipped_studies, study_data, study_part


NOT_RESULTS = ("name", "limits", "published")


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made-up results of all studies, and of one that the page does not show."""
    folder = tmp_path_factory.mktemp("studies")
    for name in (*ORDER, "smoke"):
        write_study(folder / name, made_up_plan(name))
    return folder


def written(studies: Path) -> list[dict[str, Any]]:
    """The studies of the document, as they are read back."""
    document = json.loads(json.dumps(study_data(studies), allow_nan=False))
    assert document["format"] == 1
    parts: list[dict[str, Any]] = document["studies"]
    return parts


def leaves(node: Any, path: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], Any]:
    """Every value of a document by its path."""
    if isinstance(node, dict):
        items = list(node.items())
    elif isinstance(node, list):
        items = list(enumerate(node))
    else:
        return {path: node}
    return {
        key: value for name, child in items for key, value in leaves(child, (*path, name)).items()
    }


def at(document: Any, path: tuple[str | int, ...]) -> Any:
    """The value at a path."""
    for part in path:
        document = document[part]
    return document


def test_every_number_stands_at_its_path_of_the_results(studies: Path) -> None:
    parts = written(studies)
    assert [part["name"] for part in parts] == list(ORDER)
    for part in parts:
        results = json.loads((studies / part["name"] / "results.json").read_text())
        shown = leaves({key: part[key] for key in part if key not in NOT_RESULTS})
        assert all(at(results, path) == value for path, value in shown.items())
        assert len(part["runs"]) == len(results["runs"])
        assert len(part["paired"]) == len(results["paired"])
        assert set(part["aggregate"]) == set(results["aggregate"])


def test_each_study_has_means_intervals_and_curves(studies: Path) -> None:
    for part in written(studies):
        assert all(metrics["test_loss"]["sd"] > 0 for metrics in part["aggregate"].values())
        assert all(len(pair["t_interval"]) == 2 for pair in part["paired"])
        assert all(len(run["trace"]) >= 8 for run in part["runs"])
        assert all(
            run["selected_step"] in {e["step"] for e in run["trace"]} for run in part["runs"]
        )


def test_limits_are_those_of_the_report(studies: Path) -> None:
    three, own, *_ = written(studies)
    results = ReportData(document=made_up_results_of("three-models"), source="made up")
    assert three["limits"] == list(cautions(results))
    assert "must not be put in one table with those of three-models" in own["limits"][0]


def test_only_the_published_protocol_has_the_published_figures_beside_it(studies: Path) -> None:
    first, *others = written(studies)
    assert first["name"] == "three-models"
    assert all("published" not in part for part in others)
    assert set(first["published"]["figures"]) == set(first["aggregate"])
    assert all(row["published"] and row["here"] for row in first["published"]["settings"])


def made_up_plan(name: str) -> Plan:
    """The built-in plan of a shipped study; on a file, unless its name ends with "-stories"."""
    is_generated = name.endswith("-stories")
    return plan(name.removesuffix("-stories")) if is_generated else on_file(name)


def made_up_results_of(name: str) -> dict[str, Any]:
    """The made-up document of a shipped study."""
    return made_up_results(made_up_plan(name))


def test_no_shipped_study_gives_an_empty_list(tmp_path: Path) -> None:
    assert shipped_studies(tmp_path) == ()
    assert written(tmp_path) == []


def test_results_that_lack_a_part_are_named(studies: Path) -> None:
    document = made_up_results_of("three-models")
    del document["paired"]
    with pytest.raises(StudyError, match="results lack 'paired'"):
        study_part("three-models", document, [])


def test_a_damaged_study_is_named(tmp_path: Path) -> None:
    (tmp_path / "three-models").mkdir()
    (tmp_path / "three-models" / "results.json").write_text('{"plan": {}}')
    with pytest.raises(StudyError, match="is damaged"):
        study_data(tmp_path)


def test_shipped_results_are_of_the_plans_they_lie_under() -> None:
    for folder in shipped_studies():
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        is_generated = results["plan"]["data"]["source"] == "stories"
        assert folder.name == results["plan"]["name"] + "-stories" * is_generated
        assert folder.parent == SHIPPED
