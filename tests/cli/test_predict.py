"""Predict, then run: `worksheet try`, `lab --predict` and `quiz log`."""

import json
from pathlib import Path

import pytest

from manyheads.cli.main import main
from manyheads.worksheets.library import worksheet
from tests.cli.answering import typed


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def log(capsys: pytest.CaptureFixture[str], folder: Path) -> dict[str, object]:
    found = json.loads(ran(capsys, "quiz", "log", "--json", "--data", str(folder)))
    assert isinstance(found, dict)
    return found


TRY = ("worksheet", "try", "two-routes", "zero-query")


def test_a_prediction_is_asked_for_before_the_outcome_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "0.333")
    out = ran(capsys, *TRY, "--data", str(tmp_path))
    question, answer = out.split("> ")
    assert "4/7 = 0.571" in question and "1/3" not in question
    assert "1/3 = 0.333 (lower): your prediction was right." in answer
    assert max(map(len, out.splitlines()[:-1])) <= 80  # the last line is a path
    found = log(capsys, tmp_path)
    assert found["right"] == found["judged"] == found["made"] == 1
    entry = found["predictions"]
    assert isinstance(entry, list)
    assert entry[0]["where"] == "worksheet:two-routes" and entry[0]["try"] == "zero-query"
    assert entry[0]["outcome"].endswith("4/7 = 0.571 becomes 1/3 = 0.333 (lower)")


def test_a_prediction_on_the_command_line_and_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (*TRY, "--predict", "higher", "--json", "--data", str(tmp_path))
    document = json.loads(ran(capsys, *arguments))
    assert document["right"] is False
    assert document["before"] == {"value": 4 / 7, "exact": "4/7"}
    assert document["outcome"] == {"value": 1 / 3, "exact": "1/3", "direction": "lower"}
    assert document["quantity"] == "two-routes:main.attn_weights[0][2][2]"
    assert document["prediction"] == "higher" and document["file"].endswith("predictions.jsonl")


@pytest.mark.parametrize("lines", [(), ("",), ("what?",)])
def test_without_a_prediction_nothing_is_run_or_kept(
    lines: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    typed(monkeypatch, *lines)
    out = ran(capsys, *TRY, "--data", str(tmp_path))
    assert "You made no prediction, so the experiment did not run." in out and "1/3" not in out
    typed(monkeypatch, *lines)
    document = json.loads(ran(capsys, *TRY, "--json", "--data", str(tmp_path)))
    assert document["prediction"] is document["outcome"] is document["right"] is None
    assert log(capsys, tmp_path)["made"] == 0


def test_the_experiments_of_a_worksheet_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    out = ran(capsys, "worksheet", "try", "three-heads")
    names = [line.split()[0] for line in out.splitlines() if not line.startswith(" ")]
    assert max(map(len, out.splitlines())) <= 80
    listed = json.loads(ran(capsys, "worksheet", "try", "three-heads", "--json"))
    assert names == [one["try"] for one in listed]
    assert {"zero-query", "without-head-3", "one-wide-head", "no-mask-first", "edit-w-o"} <= {
        *names
    }
    assert all("outcome" not in one for one in listed)


def test_a_worksheet_of_ones_own_edited_can_be_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.json"
    path.write_text(worksheet("two-routes").to_json(), encoding="utf-8")
    arguments = ("worksheet", "try", str(path), "edit-w-o", "--set", "W_O[0][0]=0")
    out = ran(capsys, *arguments, "--predict", "40/7", "--data", str(tmp_path))
    assert "grows from 0 to 1" in out and "your prediction was right" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["two-routes", "zero"], "try (zero) is not an experiment of two-routes: use zero-query, "),
        (["two-routes", "zero-query", "--predict", "up"], "answer ('up')"),
        (["two-routes", "zero-query", "--predict", ""], "or higher, lower or same"),
        (["two-routes", "zero-query", "--predict", "\x1b[2J"], "answer ("),
        (["two-routes", "--predict", "1"], "--predict needs the name of an experiment"),
        (["no-such", "zero-query"], "worksheet (no-such) is neither a name nor a file"),
        (["river-and-cheque", "zero-query", "--sequence", "x"], "sequence (x) is not in"),
    ],
)
def test_wrong_use_is_one_line_and_keeps_nothing(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["worksheet", "try", *arguments, "--data", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    errors = [line for line in err.splitlines() if not line.startswith("sequence: using")]
    assert out == "" and len(errors) == 1 and message in errors[0] and err[:-1].isprintable()
    assert not (tmp_path / "predictions.jsonl").exists()


def test_the_lab_asks_before_each_experiment_and_ends_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "a third each", "y", "", "a guess", "n")
    arguments = ("--try", "zero-query", "--try", "swap-heads", "--try", "heads-4")
    out = ran(capsys, "lab", "--predict", *arguments, "--data", str(tmp_path))
    assert out.splitlines()[-1] == "CHECK PASSED"
    assert (
        out.index("Your prediction") < out.index(" Try zero-query") < out.index("prediction right")
    )
    assert out.count("Was your prediction right?") == 2
    found = log(capsys, tmp_path)
    assert (found["right"], found["judged"], found["made"]) == (1, 2, 2)
    entries = found["predictions"]
    assert isinstance(entries, list)
    assert [one["where"] for one in entries] == ["lab:part-1", "lab:part-5"]
    assert "1/3" in entries[0]["outcome"] and "2,097,152" in entries[1]["outcome"]
    text = ran(capsys, "quiz", "log", "--data", str(tmp_path))
    assert text.splitlines()[-1] == "Right: 1 of 2 marked. Predictions: 2."
    assert max(map(len, text.splitlines())) <= 80


def test_a_part_is_followed_by_its_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "the parameters stay", "y")
    arguments = ("lab", "--predict", "--part", "5", "--json", "--data", str(tmp_path))
    document = json.loads(ran(capsys, *arguments))
    assert document["passed"] is True
    assert [one["part"] for one in document["parts"]] == [5]
    assert [one["try"] for one in document["tries"]] == ["heads-4"]
    assert document["predictions"][0]["right"] is True


def test_a_prediction_is_kept_where_its_judgement_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "a guess")
    out = ran(capsys, "lab", "--predict", "--try", "heads-4", "--data", str(tmp_path))
    assert out.splitlines()[-1] == "CHECK PASSED"
    assert log(capsys, tmp_path)["judged"] == 0
    typed(monkeypatch)
    out = ran(capsys, "lab", "--predict", "--try", "heads-4", "--data", str(tmp_path))
    assert "CHECK PASSED" not in out and "2,097,152" not in out
    assert log(capsys, tmp_path)["made"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--predict", "--part", "6"], "part (6) must be 1 to 5"),
        (["--predict", "--try", "x"], "experiment (x) does not exist"),
        (["--part", "1"], "--data needs --predict"),
    ],
)
def test_wrong_use_of_the_lab_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", *arguments, "--data", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and message in err


def test_an_escape_in_the_log_is_never_shown_raw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"when": "\x1b[2J", "where": "a", "try": "b", "prediction": "\x1b[31m", "right": None}
    (tmp_path / "predictions.jsonl").write_text(json.dumps(record) + "\n")
    out = ran(capsys, "quiz", "log", "--data", str(tmp_path))
    assert "\x1b" not in out and "\\x1b[31m" in out
