"""`manyheads quiz`: asking on a pipe and in JSON, bad answers, damage, and what is kept."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from manyheads.cli.main import main
from manyheads.learn.quiz import question
from tests.cli.answering import records, typed

RIGHT = ["4", "0"]
"""The numbers of question 1."""


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err[:-1].isprintable()
    return err


def test_one_question_from_numbers_to_rubric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "4", "26/7", "it reads everything", "y", "n", "yes", "")
    assert main(["quiz", "--question", "1", "--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Right: 4." in out and "Not right: it is 0." in out
    assert out.index("own words") < out.index("Full answer") < out.index("Does your answer")
    assert "Numbers right: 1 of 2. Points covered: 2 of 4." in out
    assert f"Missing in question 1: {str(question(1).rubric[1])[:40]}" in out
    assert "it reads everything" not in out
    assert max(map(len, out.splitlines()[:-1])) <= 80  # the last line is a path
    before, after = records(tmp_path / "quiz.jsonl")
    assert before["when"] == after["when"]
    assert before["covered"] == []
    assert after | {"when": ""} == {
        "when": "",
        "question": "full-width",
        "typed": ["4", "26/7"],
        "right": [True, False],
        "answer": "it reads everything",
        "covered": [True, False, True, None],
    }


def test_all_eight_in_json_with_right_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = []
    for number in range(1, 9):
        asked = question(number)
        lines += [ask.to_json()["exact"] for ask in asked.numbers]
        lines += ["in words", *("y" for _ in asked.rubric)]
    typed(monkeypatch, *lines)
    assert main(["quiz", "--json", "--data", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert err == "" and document["finished"] is True
    assert [entry["number"] for entry in document["questions"]] == list(range(1, 9))
    for entry in document["questions"]:
        assert all(number["right"] is True for number in entry["numbers"])
        assert all(point["covered"] is True for point in entry["points"])
    assert main(["quiz", "list", "--data", str(tmp_path)]) == 0
    listed = capsys.readouterr().out
    assert "2/2 numbers, 4/4 points" in listed and "not answered yet" not in listed


def test_end_of_input_ends_politely_and_keeps_what_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "4")
    assert main(["quiz", "--from", "1", "--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "The answers end here." in out and f"Saved in {tmp_path}" in out
    assert [one["typed"] for one in records(tmp_path / "quiz.jsonl")] == [["4", ""]]
    typed(monkeypatch)
    assert main(["quiz", "--json", "--data", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["finished"] is False and len(document["questions"]) == 1


def test_nothing_answered_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "", "", "")
    assert main(["quiz", "--question", "1", "--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Full answer" in out and "Did your answer" not in out
    assert "No answers, so nothing was saved." in out
    assert not (tmp_path / "quiz.jsonl").exists()


@pytest.mark.parametrize(
    "bad",
    [
        b"1/0",
        b"\x1b[2Jx",
        b"\xff\xfe\x00",
        b"x" * 10_000_000,
        b"9" * 5000,
        "\N{RIGHT-TO-LEFT OVERRIDE}",
    ],
    ids=["divided by zero", "escape", "no text", "ten megabytes", "long number", "override"],
)
def test_a_bad_answer_is_one_clear_line_and_takes_one_line_of_a_pipe(
    bad: str | bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    typed(monkeypatch, bad, "0", bad, "y", "y", "y", "y")
    assert main(["quiz", "--question", "1", "--data", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines()[0].strip().startswith("answer (")
    assert all(line.isprintable() and len(line) < 200 for line in err.splitlines())
    assert all(line.isprintable() for line in out.splitlines())
    last = records(tmp_path / "quiz.jsonl")[-1]
    assert last["right"] == [None, True]
    kept = (tmp_path / "quiz.jsonl").read_text(encoding="utf-8")
    assert len(kept) < 30_000 and "\x1b" not in kept and "\\u001b" not in kept


def test_too_few_digits_are_no_answer_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "0.50", "4.9", "")
    assert main(["quiz", "--question", "3", "--data", str(tmp_path)]) == 0
    assert "answer (4.9) has too few digits: give" in capsys.readouterr().err
    assert records(tmp_path / "quiz.jsonl")[-1]["right"] == [True, None]


def test_a_damaged_file_is_named_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = b'{"question": "scale"}\nnonsense\n{}\n'
    (tmp_path / "quiz.jsonl").write_bytes(damaged)
    for arguments in (["quiz"], ["quiz", "list"]):
        typed(monkeypatch, "4")
        message = refused(capsys, *arguments, "--data", str(tmp_path))
        assert "is damaged in line 2" in message
        assert (tmp_path / "quiz.jsonl").read_bytes() == damaged


def test_foreign_records_are_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        {"question": "no-such"},
        {"question": 3},
        {"question": "scale", "right": "x", "covered": [True, 5, None, True, True, True]},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "quiz.jsonl").write_text(text)
    assert main(["quiz", "list", "--json", "--data", str(tmp_path)]) == 0
    scale = json.loads(capsys.readouterr().out)[2]
    assert scale["right"] == [None, None] and scale["covered"] == [True, None, None, True]


def test_a_place_that_cannot_be_written_is_named_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    typed(monkeypatch, "4")
    assert "cannot be a folder" in refused(capsys, "quiz", "--data", str(tmp_path / "file" / "in"))
    (tmp_path / ".lock").mkdir()
    for arguments in (["quiz"], ["quiz", "explain"], ["quiz", "exercises"], ["lab", "--predict"]):
        message = refused(capsys, *arguments, "--data", str(tmp_path))
        assert "cannot be written" in message and "--data" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--question", "9"], "--question (9) must be 1 to 8: use one of them"),
        (["--from", "0"], "--from (0) must be 1 to 8"),
        (["--from", "2", "--question", "1"], "--from (2) cannot be combined with --question"),
        (["--question", "one"], "'one' is not a valid integer"),
        (["--json", "list"], "must come after list, not before"),
        (["lisst"], "No such command 'lisst'"),
        (["explain", "sale"], "topic (sale) does not exist: use one-head"),
    ],
)
def test_wrong_use_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, "quiz", *arguments)


def process(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "manyheads.cli.main", *arguments, "--data", str(folder)]
    restored = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, **restored)


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal on POSIX")
@pytest.mark.parametrize(
    ("arguments", "answers", "file"),
    [
        (["quiz"], b"4\n0\nin words\ny\n", "quiz.jsonl"),
        (["quiz", "explain"], b"in words\ny\n", "explain.jsonl"),
    ],
)
def test_control_c_loses_nothing(
    arguments: list[str], answers: bytes, file: str, tmp_path: Path
) -> None:
    running = process(tmp_path, *arguments)
    assert running.stdin is not None
    running.stdin.write(answers)
    running.stdin.flush()
    until = time.monotonic() + 60
    while not (tmp_path / file).exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert b"Traceback" not in err and f"Saved in {tmp_path}".encode() in err
    last = records(tmp_path / file)[-1]
    covered = last["covered"]
    assert isinstance(covered, list) and covered[0] is True
    assert "in words" in (last.get("answer"), last.get("text"))


@pytest.mark.skipif(os.name != "posix", reason="closed streams are given by number on POSIX")
def test_a_closed_standard_input_is_an_end_of_input(tmp_path: Path) -> None:
    command = f"exec <&-; {sys.executable} -m manyheads.cli.main quiz --data {tmp_path}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and b"The answers end here." in done.stdout
