"""StudyReport: its forms and its files."""

import json
from pathlib import Path

import pytest

from manyheads.core.errors import StudyError
from manyheads.report.study import StudyReport


def test_text_is_at_most_80_columns_wide(
    three_models: StudyReport, head_count: StudyReport
) -> None:
    for report in (three_models, head_count):
        lines = str(report).splitlines()
        assert max(map(len, lines)) <= 80
        assert lines[0] == f"Study {report.results.name}"
        assert any("the same sign" in line for line in lines)


def test_json_holds_means_differences_and_limits(three_models: StudyReport) -> None:
    found = json.loads(three_models.to_json())
    assert found["aggregate"] == three_models.results.document["aggregate"]
    assert found["paired"] == three_models.results.document["paired"]
    assert len(found["not_shown"]) >= 6


def test_notebook_shows_the_page_in_a_frame(three_models: StudyReport) -> None:
    shown = three_models._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert shown.count("<") == 2


def test_written_files_are_named_and_nothing_else_is_left(written: Path) -> None:
    names = {str(p.relative_to(written)) for p in written.rglob("*") if p.is_file()}
    assert {"report.html", "report.md", "figures/test-loss.svg", "figures/differences.svg"} < names
    assert not [name for name in names if not name.endswith((".html", ".md", ".svg"))]


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(
    three_models: StudyReport, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot be created"):
        three_models.write(tmp_path / "file" / "out")
