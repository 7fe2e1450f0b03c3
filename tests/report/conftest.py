"""Made-up studies, each written and drawn once."""

from pathlib import Path
from typing import Any

import pytest

from manyheads.report.reading import ReportData
from manyheads.report.study import StudyReport
from manyheads.study.plan import plan
from tests.report.made_up import made_up_results, on_file


def report_of(document: dict[str, Any]) -> StudyReport:
    """The report of a document that is in no file."""
    return StudyReport(results=ReportData(document=document, source="made-up"))


@pytest.fixture(scope="session")
def three_models() -> StudyReport:
    """The plan three-models, on a file of stories."""
    return report_of(made_up_results(on_file("three-models")))


@pytest.fixture(scope="session")
def own_recipe() -> StudyReport:
    """The plan own-recipe: the models of three-models by another recipe."""
    return report_of(made_up_results(plan("own-recipe")))


@pytest.fixture(scope="session")
def head_count() -> StudyReport:
    """The plan head-count, with its heads analysed."""
    return report_of(made_up_results(plan("head-count"), with_heads=True))


@pytest.fixture(scope="session")
def written(three_models: StudyReport, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the files of three-models."""
    folder = tmp_path_factory.mktemp("three-models")
    three_models.write(folder)
    return folder
