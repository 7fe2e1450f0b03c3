"""A folder of submissions, broken and hostile ones among them: a row for each."""

import csv
import io
import json
from pathlib import Path

import pytest

from manyheads.cli.main import main
from manyheads.practice.grading import COLUMNS, csv_from_grades, grade_folder

ANSWERS = {
    "ada/scores.py": "def scores(q, k):\n    return q @ k.mT\n",
    "ada/scale.py": "def scaled_scores(q, k):\n    return q @ k.mT\n",
    "ben/scores.py": "import os\nos._exit(0)\n",
    "cem/scores.py": "def scores(q, k)\n",
    "=dora/scores.py": "raise SystemExit\n",
    "eve/scores.py": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n",
    "finn/notes.py": "x = 1\n",
    "gil/scores.py": "\0\0",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, code in ANSWERS.items():
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
    return tmp_path / "work"


def test_each_file_gets_a_row(folder: Path) -> None:
    grades = grade_folder(folder)
    rows = {grade.file: grade.row() for grade in grades}
    assert set(rows) == set(ANSWERS)
    assert [name for name, row in rows.items() if row["solved"]] == ["ada/scores.py"]
    assert rows["ada/scale.py"]["fault"] == "scale" and rows["ada/scale.py"]["line"] == 2
    assert all(row["says"] for row in rows.values() if not row["solved"])
    read = list(csv.DictReader(io.StringIO(csv_from_grades(grades))))
    assert tuple(read[0]) == COLUMNS
    assert "'=dora" in [row["student"] for row in read]  # no formula for a spreadsheet


def test_grade_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "ada.py").write_text(ANSWERS["ada/scores.py"], encoding="utf-8")
    words = ["practice", "grade", str(work), "--task", "scores", "--json"]
    words += ["--csv", str(tmp_path / "grades.csv"), "--html", str(tmp_path / "pages")]
    assert main(words) == 0
    (row,) = json.loads(capsys.readouterr().out)["grades"]
    assert (row["student"], row["task"], row["solved"]) == ("ada", "scores", True)
    assert (tmp_path / "grades.csv").read_text().startswith("student,file,task,solved")
    assert "1 of 1 solved" in (tmp_path / "pages" / "ada.html").read_text()
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["practice", "grade", str(empty)]) == 2
    assert "has no Python file" in capsys.readouterr().err


def test_notebooks_have_a_cell_for_each_task(tmp_path: Path) -> None:
    assert main(["practice", "notebook", "scores", str(tmp_path)]) == 0
    one = json.loads((tmp_path / "scores.ipynb").read_text())
    assert 'judge("scores", scores)' in one["cells"][-1]["source"]
    assert main(["practice", "notebook", "scores", str(tmp_path)]) == 2
    assert main(["practice", "notebook"]) == 2
