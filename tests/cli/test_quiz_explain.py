"""`manyheads quiz explain`: from an explanation to its last gap."""

import json
from pathlib import Path

import pytest

from manyheads.cli.main import main
from manyheads.learn.explain_back import topic
from tests.cli.answering import records, typed


def test_a_topic_from_explanation_to_the_last_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = topic("one-head")
    first = ["words", "y", "n", "y", "y", "numbers", "y", "n"]
    typed(monkeypatch, *first, "an idea", "n", "a better one", "y", "a sum", "y")
    assert main(["quiz", "explain", "one-head", "--data", str(tmp_path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    questions = [str(point.follow_up) for point in (found.explain_points[1], found.apply_points[1])]
    assert [out.count(text) for text in questions] == [2, 1]
    assert out.index(questions[0]) < out.index(questions[1])
    assert "6 of 6 points covered; none is missing." in out
    assert "Covered: 3 of 4." in out and "Covered: 1 of 2." in out
    last = records(tmp_path / "explain.jsonl")[-1]
    assert (last["half"], last["covered"]) == ("apply", [True, True])
    assert last["answers"] == [None, "a sum"]


def test_a_topic_stops_at_an_empty_line_and_says_the_first_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "words", "n", "y", "y", "n", "numbers", "y", "y", "")
    arguments = ["quiz", "explain", "one-head", "--json", "--data", str(tmp_path)]
    assert main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["first_gap"]["follow_up"] == str(topic("one-head").explain_points[0].follow_up)
    assert document["finished"] is True
    assert main(["quiz", "explain", "--list", "--data", str(tmp_path)]) == 0
    assert "4/6 points" in capsys.readouterr().out.splitlines()[0]
    typed(monkeypatch)
    assert main(["quiz", "explain", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith(topic("one-head").title)


def test_an_explanation_left_out_has_no_points_to_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "", "")
    assert main(["quiz", "explain", "mask", "--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "0 of 6 points covered; the rest is not marked." in out
    assert "No answers, so nothing was saved" in out and not (tmp_path / "explain.jsonl").exists()


def test_a_damaged_file_is_named_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "explain.jsonl").write_bytes(b"[]\n")
    for arguments in (["mask"], [], ["--list"]):
        typed(monkeypatch, "words")
        assert main(["quiz", "explain", *arguments, "--data", str(tmp_path)]) == 2
        out, err = capsys.readouterr()
        assert out == "" and "is damaged in line 1" in err
    assert (tmp_path / "explain.jsonl").read_bytes() == b"[]\n"
