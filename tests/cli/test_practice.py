"""`manyheads practice`: files, verdicts, hints and progress on the command line."""

import json
from pathlib import Path

import pytest

from manyheads.cli.main import main

RIGHT = "def scores(q, k):\n    return q @ k.mT\n"
WRONG = "def scores(q, k):\n    return k @ q.mT\n"


def practice(*words: object) -> int:
    return main(["practice", *map(str, words)])


def test_a_task_from_start_to_solved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ("--data", tmp_path / "own")
    assert practice("start", "scores", tmp_path) == 0
    path = tmp_path / "scores.py"
    assert practice("judge", path, *data) == 1
    path.write_text(RIGHT, encoding="utf-8")
    capsys.readouterr()
    assert practice("judge", path, "--json", *data) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["task"], document["solved"], document["verdict"]) == ("scores", True, "right")
    assert document["constraints"] == [{"name": "no-head-loop", "kept": True, "line": None}]
    assert practice("--json", *data) == 0
    first, second = json.loads(capsys.readouterr().out)["tasks"][:2]
    assert first == {
        "name": "scores",
        "title": "Dot-product scores",
        "solved": True,
        "attempts": 2,
    }
    assert not second["solved"]
    assert practice("status", *data) == 0
    assert f"Next: manyheads practice start {second['name']}" in capsys.readouterr().out
    assert practice("reset", "scores", "--yes", *data) == 0
    assert practice("status", "--json", *data) == 0
    assert not json.loads(capsys.readouterr().out.splitlines()[-1])["tasks"][0]["solved"]


def test_start_does_not_replace_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert practice("start", "scores", tmp_path) == 0
    assert practice("start", "scores", tmp_path) == 2
    assert "--force to replace" in capsys.readouterr().err
    assert practice("start", "scores", tmp_path, "--force") == 0
    assert practice("start", "repair-scores", tmp_path, "--seed", 2) == 0
    assert "This code has one mistake" in (tmp_path / "repair-scores.py").read_text()


def test_hints_come_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(4):
        assert practice("hint", "scores", "--data", tmp_path) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in said] == [
        *("Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3", "Hint 3 of 3")
    ]


def test_hints_of_a_repair_task_belong_to_its_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for seed in (1, 2, 3, 4):
        words = ("hint", "repair-multi-head", "--level", 3, "--seed", seed, "--data", tmp_path)
        assert practice(*words) == 0
        said.append(capsys.readouterr().out)
    assert len(set(said)) > 1


def test_solution_asks_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert practice("solution", "scores", "--yes", "--data", tmp_path) == 0
    assert "q @ k.transpose(-2, -1)" in capsys.readouterr().out


def test_wrong_use_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert practice("start", "no-such-task", tmp_path) == 2
    assert practice("judge", tmp_path / "missing.py") == 2
    (tmp_path / "unknown.py").write_text("x = 1\n", encoding="utf-8")
    assert practice("judge", tmp_path / "unknown.py") == 2
    (tmp_path / "scores.py").write_text(WRONG, encoding="utf-8")
    assert practice("judge", tmp_path / "scores.py", "--watch", "--json") == 2
    assert "Traceback" not in capsys.readouterr().err
