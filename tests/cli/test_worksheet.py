"""`manyheads worksheet`: every subcommand, as text and as JSON, and bad input in one line."""

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from manyheads.cli.main import main
from manyheads.worksheets.library import worksheet, worksheet_names
from tests.worksheets.samples import damaged, full_document, mutated, small_document


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must succeed in silence, and return what it printed."""
    status = main(["worksheet", *arguments])
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    return out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must be refused in one line on standard error, and return the line."""
    status = main(["worksheet", *arguments])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith("manyheads: ") and err.endswith("\n") and err.count("\n") == 1
    assert "Traceback" not in err and err[:-1].isprintable()
    return err


def test_list_names_every_worksheet(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ran(capsys, "list").splitlines()
    assert [line.split()[0] for line in lines] == list(worksheet_names())
    listed = json.loads(ran(capsys, "list", "--json"))
    assert [entry["name"] for entry in listed] == list(worksheet_names())
    assert listed[0]["sequences"] == ["river", "cheque"]


@pytest.mark.parametrize("name", worksheet_names())
def test_show_prints_the_given_numbers_in_80_columns(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ran(capsys, "show", name).splitlines()
    assert max(map(len, lines)) <= 80
    assert json.loads(ran(capsys, "show", name, "--json")) == json.loads(worksheet(name).to_json())


def test_show_prints_edited_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    shown = ran(capsys, "show", "two-routes", "--set", "W_O[0][0]=-3*sqrt(2)/5")
    assert "-3*sqrt(2)/5" in shown


def test_solve_prints_one_document_and_fractions(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(
        ran(capsys, "solve", "two-routes", "--exact", "--receiver", "3", "--json")
    )
    assert document["output"] == ["40/7", "6/7", "12/7", "26/7"]
    assert (document["receiver"], document["exact"]) == (3, True)
    assert "40/7" in ran(capsys, "solve", "two-routes", "--exact", "--receiver", "3")
    assert "5.714" in ran(capsys, "solve", "two-routes")


def test_solve_says_which_sequence_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worksheet", "solve", "river-and-cheque", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["sequence"] == "river"
    assert err == "sequence: using river, the first of river, cheque\n"
    document = ran(capsys, "solve", "river-and-cheque", "--sequence", "cheque", "--json")
    assert json.loads(document)["sequence"] == "cheque"


@pytest.mark.parametrize(
    ("options", "output"),
    [
        (["--zero-query"], ["16/3", "0", "0", "4"]),
        (["--without-head", "1"], ["2", "-10/7", "-2", "10/7"]),
        (["--without-head", "2"], ["26/7", "16/7", "26/7", "16/7"]),
        (
            ["--set", "heads.0.W_V[2][0]=0", "--set", "heads.1.W_V[2][0]=0"],
            ["0", "6/7", "0", "26/7"],
        ),
        (["--set", "heads.0.W_K[1][0]=-sqrt(2)"], ["4", "0", "0", "20/7"]),
        (["--one-wide-head"], ["16/3", "0", "0", "4"]),
    ],
)
def test_solve_applies_what_is_asked(
    options: list[str], output: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = ran(capsys, "solve", "two-routes", "--exact", "--receiver", "3", "--json", *options)
    assert json.loads(text)["output"] == output


def test_explain_prints_the_arithmetic_down_to_the_given_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = ran(capsys, "explain", "river-and-cheque", "river.output[9][0]")
    assert text.startswith("river.output[9][0] = 3.0048385396027766\n")
    assert "3.005 = 2.617 x 1 + 1.552 x 0.25" in text
    assert "Given in the worksheet" in text
    document = json.loads(ran(capsys, "explain", "two-routes", "output[2][0]", "--json"))
    assert document["steps"][0]["exact"] == "40/7" and document["cut"] == []
    cut = ran(capsys, "explain", "two-routes", "output[2][0]", "--depth", "2")
    assert "Not explained" in cut
    edited = ran(capsys, "explain", "two-routes", "q[0][0][0]", "--set", "heads.0.W_Q[0][0]=1/3")
    assert edited.startswith("main.q[0][0][0] = 1/3 = 0.3333333333333333\n")


def test_schema_is_printed_and_own_file_follows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = json.loads(ran(capsys, "schema"))
    jsonschema.validate(full_document(), schema)
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(full_document()), encoding="utf-8")
    assert json.loads(ran(capsys, "solve", str(path), "--json"))["worksheet"] == "full"
    ran(capsys, "show", str(path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "two-rouds"], r"worksheet (two-rouds) is neither a name nor a file: use river"),
        (["solve", "./none.json"], "file (./none.json) does not exist: check its name"),
        (["solve", "."], "file (.) cannot be opened (is a folder)"),
        (["solve", "two-routes", "--sequence", "x"], "sequence (x) is not in two-routes: use main"),
        (["solve", "two-routes", "--receiver", "4"], "receiver (4) must be 1 to 3: use 3"),
        (["solve", "two-routes", "--receiver", "0"], "receiver (0) must be 1 to 3"),
        (["solve", "two-routes", "--receiver", "x"], "'x' is not a valid integer"),
        (["solve", "two-routes", "--without-head", "3"], "--without-head (3) must be 1 to 2"),
        (["solve", "two-routes", "--set", "W_O"], "--set ('W_O') must be PATH=VALUE"),
        (["solve", "two-routes", "--set", "W_O[0][0]=log(2)"], "uses log, which may mean two"),
        (["solve", "two-routes", "--set", "W_O[9][0]=1"], "W_O[9] does not exist"),
        (["solve", "two-routes", "--set", "=1"], "place ('') cannot be read"),
        (["solve"], "Missing argument 'NAME|FILE'. (see: manyheads worksheet solve --help)"),
        (["solve", "two-routes", "--exakt"], "No such option '--exakt'"),
        (["solv"], "No such command 'solv'"),
        (["explain", "two-routes", "nothing"], "quantity (nothing) does not begin with a sequence"),
        (["explain", "river-and-cheque", "output[0][0]"], "has no sequence: use river.output"),
        (["explain", "two-routes", "x[0][0]", "--depth", "0"], "depth (0) must be at least 1"),
        (["explain", "two-routes", "\x1b[31m\n"], r"place ('\x1b[31m'"),
        (["show", "a\nb"], "is neither a name nor a file"),
    ],
)
def test_bad_input_is_one_clear_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, *arguments)


@pytest.mark.parametrize("seed", range(6))
def test_broken_files_give_one_line_and_no_traceback(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dice, path, count = random.Random(seed), tmp_path / "broken.json", 0
    for number in range(60):
        document: dict[str, Any] = dice.choice([small_document(), full_document()])
        if number % 2:
            document = mutated(document, dice)
        data = json.dumps(document).encode()
        path.write_bytes(data if number % 2 else damaged(data, dice))
        status = main(["worksheet", "show", str(path)])
        out, err = capsys.readouterr()
        assert status in (0, 2)
        if status == 2:
            count += 1
            assert out == "" and err.count("\n") == 1 and err.startswith("manyheads: file (")
            assert err[:-1].isprintable()
    assert count > 20


def test_worksheet_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Commands:" in ran(capsys)
