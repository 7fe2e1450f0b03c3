"""The command `exercises`: lists, asks and marks, and keeps what was answered."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from manyheads.cli.quiz_exercises import exercises
from manyheads.core.errors import LearnError
from manyheads.learn.exercises import KINDS, exercise
from manyheads.learn.exercises.answers import MAX_BYTES
from manyheads.learn.exercises.marking import FILE
from manyheads.worksheets.numbers import exact_text


def run(*arguments: str, typed: str = "", data: Path) -> Result:
    """The command with its own data folder."""
    return CliRunner().invoke(exercises, [*arguments, "--data", str(data)], input=typed)


def kept(data: Path) -> list[dict[str, object]]:
    """The records of the learner's file."""
    path = data / FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def right(name: str) -> str:
    """The right answer, exact."""
    kind, _, seed = name.partition("/")
    return ", ".join(exact_text(number) for number in exercise(kind, int(seed)).answer)


def test_json_lists_a_sheet_without_answers_and_with(tmp_path: Path) -> None:
    sheet = json.loads(run("--seed", "7", "--json", data=tmp_path).output)["exercises"]
    assert [item["id"] for item in sheet] == [f"{kind}/7" for kind in KINDS]
    assert not [item for item in sheet if {"answer", "misconceptions", "working"} & set(item)]
    options = ("score", "ablation", "--seed", "7", "--count", "3", "--json", "--with-answers")
    full = json.loads(run(*options, data=tmp_path).output)["exercises"]
    assert [item["id"] for item in full] == ["score/7", "ablation/7", "score/8"]
    assert full[0]["answer"] == ["3", "1/2", "-3/2"]
    assert kept(tmp_path) == []


def test_with_answers_prints_working_and_known_mistakes(tmp_path: Path) -> None:
    result = run("message", "--seed", "7", "--with-answers", data=tmp_path)
    assert result.exit_code == 0
    assert "Answer: message column 1 = 94/7" in result.output
    assert "Known mistakes:" in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_asking_marks_names_the_mistake_and_keeps_it(tmp_path: Path) -> None:
    item = exercise("score", 8).misconceptions[0]
    wrong = ", ".join(exact_text(number) for number in item.values)
    result = run(
        "score",
        "--seed",
        "7",
        "--count",
        "4",
        typed=f"3 1/2 -1.5\n{wrong}\n\n1 2 x\n",
        data=tmp_path,
    )
    assert result.exit_code == 0
    assert "1 of 2 right." in result.output
    assert " ".join(item.says.split()[:6]) in " ".join(result.output.split())
    records = kept(tmp_path)
    assert [(r["exercise"], r["right"]) for r in records] == [("score/7", True), ("score/8", False)]
    assert records[1]["misconceptions"] == [item.name]
    assert records[0]["typed"] == "3 1/2 -1.5"


def test_end_of_input_ends_politely_and_says_what_is_kept(tmp_path: Path) -> None:
    result = run("score", "--seed", "7", "--count", "3", typed="3 1/2 -1.5\n", data=tmp_path)
    assert result.exit_code == 0
    assert f"1 of 1 right. Saved in {tmp_path / FILE}." in result.output
    nothing = run("score", "--seed", "7", typed="", data=tmp_path)
    assert nothing.exit_code == 0
    assert "No answers." in nothing.output


def answers(tmp_path: Path, text: str) -> str:
    """A file of answers."""
    path = tmp_path / "answers.txt"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_file_with_right_answers_ends_with_0(tmp_path: Path) -> None:
    names = [f"{kind}/7" for kind in KINDS]
    lines = answers(tmp_path, "# mine\n\n" + "".join(f"{n}: {right(n)}\n" for n in names))
    result = run("--answers", lines, "--seed", "7", data=tmp_path)
    assert result.exit_code == 0
    assert f"{len(KINDS)} of {len(KINDS)} right." in result.output
    as_json = answers(
        tmp_path, json.dumps({"score/7": ["3", 0.5, "-3/2"], "concat/7": right("concat/7")})
    )
    found = run("--answers", as_json, "--json", data=tmp_path)
    assert found.exit_code == 0
    assert json.loads(found.output)["right"] == 2


def test_a_file_with_a_wrong_answer_ends_with_1(tmp_path: Path) -> None:
    path = answers(tmp_path, f"score/7: {right('score/7')}\nweight-row/7: \nconcat/7: 1\n")
    result = run("--answers", path, "--json", data=tmp_path)
    assert result.exit_code == 1
    document = json.loads(result.output)
    assert (document["right"], document["count"]) == (1, 3)
    assert [mark["judged"] for mark in document["marked"]] == [True, False, False]
    assert len(kept(tmp_path)) == 1


def test_what_a_sheet_asks_and_a_file_leaves_out_is_wrong(tmp_path: Path) -> None:
    path = answers(tmp_path, f"score/7: {right('score/7')}")
    result = run("score", "concat", "--seed", "7", "--answers", path, data=tmp_path)
    assert result.exit_code == 1
    assert "concat/7: Not answered." in result.output
    assert "1 of 2 right." in result.output


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no answers"),
        ("score/7 1 2", "has no colon in line 1"),
        ("score: 1", r"exercise ('score') must be a kind and a seed"),
        ("score/-7: 1", "must be a kind and a seed"),
        ("score/" + "9" * 5000 + ": 1", "must be a kind and a seed"),
        ("score/4294967296: 1", "seed (4294967296) must be a whole number"),
        ("scores/1: 1", "kind ('scores') does not exist"),
        ("score/1: 1\nscore/1: 2", "answers 'score/1' twice"),
        ('{"score/1": "1", "score/1": "2"}', "answers 'score/1' twice"),
        ('{"score/1": {}}', "with a text or a list of numbers"),
        ('{"score/1": null}', "with a text or a list of numbers"),
        ('{"score/1": [[1]]}', "with a text or a list of numbers"),
        ('{"score/1": true}', "with a text or a list of numbers"),
        ('{"score/1": ', "is not JSON"),
        ("[" * 100_000, "has no colon"),
        ('{"a":' + "[" * 100_000, "is not JSON"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    result = run("--answers", answers(tmp_path, text), data=tmp_path)
    assert isinstance(result.exception, LearnError)
    assert says in str(result.exception)
    assert len(str(result.exception)) < 400
    assert kept(tmp_path) == []


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    missing = run("--answers", str(tmp_path / "none"), data=tmp_path)
    assert "cannot be read" in str(missing.exception)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8 text" in str(run("--answers", str(binary), data=tmp_path).exception)
    binary.write_bytes(b"#" * MAX_BYTES)
    assert "has no answers" in str(run("--answers", str(binary), data=tmp_path).exception)
    binary.write_bytes(b"#" * (MAX_BYTES + 1))
    assert "larger than" in str(run("--answers", str(binary), data=tmp_path).exception)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("nothing",), "kind ('nothing') does not exist"),
        (("--seed", "-1"), "seed (-1) must be"),
        (("--seed", "1", "--count", "0"), "count (0) must be from 1 to 1000"),
        (("--seed", "1", "--count", "1001"), "count (1001) must be"),
    ],
)
def test_wrong_use_is_refused(tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    result = run(*options, "--json", data=tmp_path)
    assert isinstance(result.exception, LearnError)
    assert says in str(result.exception)


def test_a_kind_with_answers_needs_the_seed_of_the_sheet(tmp_path: Path) -> None:
    result = run("score", "--answers", answers(tmp_path, "score/7: 1"), data=tmp_path)
    assert result.exit_code == 2
    assert "needs the seed: add --seed" in result.output


def test_the_largest_seed_goes_on_with_zero(tmp_path: Path) -> None:
    options = ("score", "--seed", "4294967295", "--count", "2", "--json")
    sheet = json.loads(run(*options, data=tmp_path).output)["exercises"]
    assert [item["seed"] for item in sheet] == [4294967295, 0]


def test_a_damaged_file_of_results_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"exercise": "score/1"}\n{"half', encoding="utf-8")
    run("score", "--seed", "7", typed="3 1/2 -1.5\n", data=tmp_path)
    assert len(kept(tmp_path)) == 2
    assert (tmp_path / f"{FILE}.torn").read_text().strip() == '{"half'


def test_help_lists_every_kind_with_what_it_asks() -> None:
    text = CliRunner().invoke(exercises, ["--help"]).output
    said = " ".join(text.split())
    for kind in KINDS.values():
        assert f"{kind.name} {kind.summary}" in said
    assert max(map(len, text.splitlines())) <= 80
