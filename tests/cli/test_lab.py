"""The command `manyheads lab`: last line, exit statuses, JSON, and any directory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from manyheads.cli.main import main


def lab(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, from a folder of its own."""
    return subprocess.run(
        [sys.executable, "-m", "manyheads.cli.main", "lab", *arguments],
        capture_output=True,
        encoding="utf-8",
        cwd=folder,
        env=os.environ | environment,
        timeout=120,
        check=False,
    )


def test_the_whole_lab_from_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["lab"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[-1] == "CHECK PASSED"
    assert lines.count("CHECK PASSED") == 1
    assert [line for line in lines if line.startswith(" Part ")][4].startswith(" Part 5 · ")
    assert "\x1b" not in captured.out
    assert captured.err == ""
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_without_the_letters_still_gets_the_lab(tmp_path: Path) -> None:
    done = lab(tmp_path, "--part", "1", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "CHECK PASSED"


def test_one_part_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "--part", "2"]) == 0
    out = capsys.readouterr().out
    assert "Part 2" in out
    assert "Part 1" not in out
    assert out.endswith("\n\nCHECK PASSED\n")


@pytest.mark.parametrize(
    ("name", "answer"),
    [("zero-query", "16/3"), ("ablate-head-1", "-10/7"), ("heads-4", "2,097,152")],
)
def test_an_experiment_alone(name: str, answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "--try", name]) == 0
    out = capsys.readouterr().out
    assert out.index("Predict first:") < out.index(answer)
    assert out.splitlines()[-1] == "CHECK PASSED"


def test_json_is_one_document_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "--part", "5", "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["passed"] is True
    assert [part["part"] for part in document["parts"]] == [5]
    values = {value["name"]: value["value"] for value in document["parts"][0]["values"]}
    assert values["one score tensor in memory, bytes"] == [262_144, 1_048_576]
    assert captured.err == ""


def test_json_of_a_failed_check_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("manyheads.learn.lab.part_costs.WIDTH", 16)
    assert main(["lab", "--part", "5", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["passed"] is False
    failed = [value for value in document["parts"][0]["values"] if not value["passed"]]
    assert failed[0]["name"] == "the same width, more heads, parameters"
    assert failed[0]["failures"][0].startswith("printed 1,024, expected 256 (by hand)")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--part", "6"), "part (6) must be 1 to 5: use one of them"),
        (("--part", "0"), "part (0) must be 1 to 5: use one of them"),
        (("--part", "one"), "'one' is not a valid integer"),
        (("--try", "heads-5"), "experiment (heads-5) does not exist: use zero-query, "),
        (("--try", "a\nb\x1b[2J"), "experiment (a b\\x1b[2J) does not exist"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_help_has_an_example_and_names_the_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    from manyheads.learn.lab import TRY_NAMES

    assert main(["lab", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Example: manyheads lab --part 1" in out
    assert all(name in out for name in TRY_NAMES)
