"""The command `manyheads study report`: what it prints, writes and refuses."""

import json
from pathlib import Path

import pytest

from manyheads.cli.main import main
from tests.report.made_up import write_study


def test_report_prints_tables_and_names_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study(tmp_path, "own-recipe")
    assert main(["study", "report", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("Study own-recipe\n")
    assert "four-heads - one-head" in out
    assert f"Wrote {tmp_path / 'report.html'}\n" in out
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "report.md").is_file()


def test_json_is_one_document_and_files_may_go_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = write_study(tmp_path / "study", "smoke")
    out = tmp_path / "elsewhere"
    arguments = ["study", "report", str(tmp_path / "study"), "--out", str(out), "--json"]
    assert main(arguments) == 0
    printed, err = capsys.readouterr()
    found = json.loads(printed)
    assert err == ""
    assert found["aggregate"] == document["aggregate"]
    assert all(Path(name).is_file() for name in found["files"])
    assert [path.name for path in (tmp_path / "study").iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "has no results.json"), ("{", "damaged"), ('{"plan": {}}', "plan_sha256 must be")],
)
def test_bad_folders_are_refused_in_one_line(
    content: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "results.json").write_text(content)
    assert main(["study", "report", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err
    assert not (tmp_path / "report.html").exists()
