"""The command `manyheads cards`: the dialogue, what it saves, and bad input."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from manyheads.cli.main import main
from manyheads.learn.cards import deck
from manyheads.learn.cards.reviews import Review, add_review

FIRST, SECOND = deck()[:2]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]):  # noqa: ANN201 - a function
    """Run `manyheads cards ...` with lines of input; gives status, output and error output."""

    def run(typed: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        status = main(["cards", *arguments, "--data", str(tmp_path)])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def saved(folder: Path) -> list[tuple[str, int]]:
    path = folder / "reviews.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(row["card"], row["rating"]) for row in map(json.loads, lines)]


def test_a_card_is_asked_answered_and_saved(answers, tmp_path: Path) -> None:  # noqa: ANN001
    status, out, err = answers("64\n3\n", "review", "--limit", "1")
    assert (status, err) == (0, "")
    assert out.index("How wide is") < out.index("64 = 512 / 8") < out.index("Good: next review")
    assert out.endswith(f"Saved 1 review in {tmp_path / 'reviews.jsonl'}\n")
    assert saved(tmp_path) == [(FIRST.id, 3)]
    assert max(map(len, out.splitlines()[:-1])) <= 80


def test_without_a_further_command_it_reviews(answers, tmp_path: Path) -> None:  # noqa: ANN001
    assert answers("\neasy\n\n2\n")[0] == 0
    assert saved(tmp_path) == [(FIRST.id, 4), (SECOND.id, 2)]


@pytest.mark.parametrize("typed", ["", "\n", "q\n", "Q\n", "\nq\n", "a guess\n\n\n"])
def test_the_end_of_input_and_q_stop_politely(typed: str, answers, tmp_path: Path) -> None:  # noqa: ANN001
    status, out, _ = answers(typed)
    assert status == 0
    assert out.endswith("No review made.\n")
    assert saved(tmp_path) == []


def test_what_is_no_rating_is_asked_again(answers, tmp_path: Path) -> None:  # noqa: ANN001
    typed = "\n5\n\n-1\n\u0663\n" + "x" * 1000 + "\n2\n"
    status, _, err = answers(typed)
    assert status == 0
    assert err.count("must be 1, 2, 3 or 4: type one of them") == 5
    assert saved(tmp_path) == [(FIRST.id, 2)]


def test_a_topic_a_limit_and_a_number_of_new_cards(answers, tmp_path: Path) -> None:  # noqa: ANN001
    assert answers("\n4\n" * 9, "review", "--topic", "masks", "--limit", "2")[0] == 0
    assert [card.partition("-")[0] for card, _ in saved(tmp_path)] == ["masks"] * 2
    _, out, _ = answers("\n4\n" * 9, "review", "--topic", "masks", "--new", "3")
    assert len(saved(tmp_path)) == 3
    assert "Nothing is due now; the next card is due in 8 days." in out
    _, out, _ = answers("", "review", "--topic", "scale", "--new", "0")
    assert "you have seen all new cards of today: use --new N" in out


def test_data_may_stand_before_the_further_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n4\n")))
    assert main(["cards", "--data", str(tmp_path / "new" / "folder"), "review"]) == 0
    assert saved(tmp_path / "new" / "folder") == [(FIRST.id, 4)]


def test_list_and_stats_are_tables_and_json(answers, tmp_path: Path) -> None:  # noqa: ANN001
    answers("\n4\n")
    _, out, _ = answers("", "list", "--topic", "shapes")
    assert out.splitlines()[1].split() == [FIRST.id, "review", "in", "8", "days"]
    assert max(map(len, out.splitlines())) <= 80
    document = json.loads(answers("", "list", "--json")[1])
    assert [row["id"] for row in document["cards"]] == [card.id for card in deck()]
    assert document["cards"][0]["front"] == FIRST.front.to_json()
    assert [row["state"] for row in document["cards"][:2]] == ["review", "new"]
    document = json.loads(answers("", "stats", "--json")[1])
    assert (document["reviews"], document["learned"], document["cards"]) == (1, 1, len(deck()))
    assert document["topics"]["shapes"]["learned"] == 1
    _, out, _ = answers("", "stats")
    assert out.splitlines()[-1].split()[0] == "all"
    assert max(map(len, out.splitlines())) <= 80


def test_export_writes_the_deck_and_replaces_only_when_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deck.apkg"
    assert main(["cards", "export", str(out)]) == 0
    assert capsys.readouterr().out == f"Wrote {len(deck())} cards to {out}\n"
    assert main(["cards", "export", str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["cards", "export", str(out), "--force", "--topic", "scale"]) == 0


def test_import_merges_what_the_page_exported(answers, tmp_path: Path) -> None:  # noqa: ANN001
    answers("\n4\n")
    page = tmp_path / "page.jsonl"
    line = '{"card":"%s","rating":3,"when":"2026-01-01T08:00:00.000Z"}\n'
    page.write_text(line % SECOND.id + line % "gone")
    status, out, err = answers("", "import", str(page))
    assert (status, out) == (0, "Added 2 reviews; 0 were already there.\n")
    assert "1 of 3 reviews are of cards that this deck does not have: they are kept" in err
    assert json.loads(answers("", "import", str(page), "--json")[1]) == {"added": 0, "known": 2}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("review", "--topic", "nope"), "topic (nope) does not exist"),
        (("review", "--limit", "0"), "--limit"),
        (("review", "--new", "-1"), "--new"),
        (("list", "--topic", ""), "topic () does not exist"),
        (("import", "missing.jsonl"), "missing.jsonl) does not exist"),
        (("import",), "Missing argument"),
        (("shuffle",), "No such command"),
    ],
)
def test_wrong_use_is_one_line(
    arguments: tuple[str, ...],
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["cards", "--data", str(tmp_path), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert why in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", [(), ("review",), ("list",), ("stats", "--json")])
def test_a_damaged_file_is_one_line_and_stays(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "reviews.jsonl"
    path.write_bytes(b'{"card": "a", "rating": 3, "when": "2026-01-01T00:00:00Z"}\n\xff\n{}\n')
    content = path.read_bytes()
    assert main(["cards", "--data", str(tmp_path), *command]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "is damaged in line 2" in err
    assert path.read_bytes() == content


def test_a_file_that_cannot_be_written_is_told_before_the_first_card(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("manyheads.learn.own_files.lock_folder", refuse)
    assert main(["cards", "--data", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "reviews.jsonl) cannot be written (Permission denied)" in err


def test_a_folder_that_cannot_be_one_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    assert main(["cards", "--data", str(tmp_path / "file")]) == 2
    assert "--data" in capsys.readouterr().err


def test_bytes_that_are_no_text_are_a_wrong_answer_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe\n\xff\n3\n")))
    assert main(["cards", "--data", str(tmp_path)]) == 0
    assert saved(tmp_path) == [(FIRST.id, 3)]


def test_a_rating_saved_just_before_ctrl_c_is_counted(
    answers,  # noqa: ANN001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(folder: Path, review: Review) -> None:
        add_review(folder, review)
        raise KeyboardInterrupt

    monkeypatch.setattr("manyheads.learn.cards.session.add_review", interrupted)
    status, _, err = answers("\n4\n")
    assert status == 130
    assert err.startswith(f"\nSaved 1 review in {tmp_path / 'reviews.jsonl'}\n")
    assert saved(tmp_path) == [(FIRST.id, 4)]


def test_ctrl_c_before_a_rating_is_saved_counts_none(
    answers,  # noqa: ANN001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(folder: Path, review: Review) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("manyheads.learn.cards.session.add_review", interrupted)
    status, _, err = answers("\n4\n")
    assert status == 130
    assert err.startswith("\nNo review made.\n")


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT: run on POSIX")
def test_ctrl_c_loses_no_rating(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "manyheads.cli.main", "cards", "--data", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(b"\n4\n\n")
    process.stdin.flush()
    until = time.monotonic() + 60
    while saved(tmp_path) == [] and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Saved 1 review in" in err
    assert b"Traceback" not in err
    assert saved(tmp_path) == [(FIRST.id, 4)]
