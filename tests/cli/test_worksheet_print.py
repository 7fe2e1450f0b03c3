"""`manyheads worksheet print`: files that are whole, nothing overwritten, bad input in one line."""

import json
import re
import sys
from pathlib import Path

import pytest

from manyheads.cli.main import main
from tests.cli.test_worksheet import refused
from tests.report.reading_paper import filled_in, footers, opened, texts_of
from tests.worksheets.samples import small_document


def wrote(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> bytes:
    """Print a worksheet, which must succeed, and return the file; OUT is the second argument."""
    status = main(["worksheet", "print", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert status == 0, err
    assert out.count("\n") == 1 and str(arguments[1]) in out
    return Path(arguments[1]).read_bytes()


def test_a_blank_sheet_and_its_key_have_the_same_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blank = wrote(capsys, "two-routes", tmp_path / "blank.pdf")
    key = wrote(capsys, "two-routes", tmp_path / "key.pdf", "--key")
    assert len(opened(blank).pages) == len(opened(key).pages) == 2
    answers = filled_in(blank, key)
    assert {"26/7", "40/7", "1/7", "4/7"} <= set(answers)
    assert answers[-4:] == ["40/7", "6/7", "12/7", "26/7"]


def test_an_edit_a_sentence_a_receiver_and_a_paper_are_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit = "heads.0.W_Q[0][0]=1/2"
    options = ("--paper", "LETTER", "--receiver", "2", "--sequence", "main", "--set", edit)
    key = wrote(capsys, "two-routes", tmp_path / "a.pdf", "--key", *options)
    box = opened(key).pages[0].mediabox
    assert (round(box.width), round(box.height)) == (612, 792)
    texts = texts_of(key)
    assert f"Changed from the original: {edit}." in texts
    assert any("receiver 2" in text for text in texts)
    assert "0.414" not in texts and "ln(2)/2" in texts


def test_which_sentence_is_taken_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["worksheet", "print", "river-and-cheque", str(tmp_path / "a.pdf")]) == 0
    assert "using river, the first of river, cheque" in capsys.readouterr().err


def test_a_file_is_replaced_only_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a.pdf"
    out.write_bytes(b"mine")
    line = refused(capsys, "print", "two-routes", str(out))
    assert "exists already: use another name, or --force" in line
    assert out.read_bytes() == b"mine"
    assert wrote(capsys, "two-routes", out, "--force").startswith(b"%PDF-")
    assert list(tmp_path.iterdir()) == [out]


def test_a_file_of_the_user_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "mine.json"
    source.write_text(json.dumps(small_document()))
    assert wrote(capsys, source, tmp_path / "mine.pdf")
    document = small_document()
    document["sequences"]["main"]["tokens"][1] = "猫"
    source.write_text(json.dumps(document))
    line = refused(capsys, "print", str(source), str(tmp_path / "cat.pdf"))
    assert "U+732B" in line and "--font FILE.ttf" in line
    assert not (tmp_path / "cat.pdf").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("two-routes", "a.txt"), "must end in .pdf"),
        (("two-routes", "none/a.pdf"), "in a folder that does not exist"),
        (("two-routes", "folder.pdf"), "is a folder"),
        (("two-routes", "x" * 300 + ".pdf"), "is not a valid path|too long"),
        (("nothing", "a.pdf"), "is neither a name nor a file"),
        (("two-routes", "a.pdf", "--receiver", "9"), r"receiver \(9\) must be 1 to 3"),
        (("two-routes", "a.pdf", "--receiver", "0"), r"receiver \(0\) must be 1 to 3"),
        (("two-routes", "a.pdf", "--sequence", "other"), r"sequence \(other\)"),
        (("two-routes", "a.pdf", "--set", "W_O"), "must be PATH=VALUE"),
        (("two-routes", "a.pdf", "--paper", "a3"), "'a3' is not one of"),
        (("two-routes", "a.pdf", "--font", "no.ttf"), r"font \('no.ttf'\) cannot be read"),
        (("two-routes",), "Missing argument"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    arguments: tuple[str, ...],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.pdf").mkdir()
    assert re.search(said, refused(capsys, "print", *arguments))
    assert [path.name for path in tmp_path.iterdir()] == ["folder.pdf"]


def test_a_missing_package_is_named_with_what_installs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    line = refused(capsys, "print", "two-routes", str(tmp_path / "a.pdf"))
    assert "a printed sheet needs typst" in line and 'pip install "manyheads[learn]"' in line


def quiz(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    status = main(["quiz", "exercises", *map(str, arguments)])
    return (status, *capsys.readouterr())


def test_exercises_are_printed_and_drawn_again_for_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, key = tmp_path / "sheet.pdf", tmp_path / "key.pdf"
    again = "manyheads quiz exercises score concat --seed 7 --count 3"
    given = ("score", "concat", "--seed", "7", "--count", "3")
    assert quiz(capsys, *given, "--pdf", out) == (0, f"The sheet is in {out} ({again})\n", "")
    assert quiz(capsys, *given, "--pdf", key, "--with-answers")[0] == 0
    assert footers(out.read_bytes())[0].startswith(f"{again} · to fill in")
    assert "Working:" not in " ".join(texts_of(out.read_bytes()))
    assert "Working:" in " ".join(texts_of(key.read_bytes()))
    status, _, line = quiz(capsys, *given, "--pdf", out)
    assert status == 2 and "exists already" in line
    status, _, line = quiz(capsys, *given, "--pdf", out, "--json", "--force")
    assert status == 2 and "--pdf cannot be combined with --json or --answers" in line


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps a folder that is in use")
def test_a_sheet_is_printed_where_the_current_folder_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(["worksheet", "print", "two-routes", str(tmp_path / "sheet.pdf")]) == 0
    assert (tmp_path / "sheet.pdf").read_bytes().startswith(b"%PDF")
