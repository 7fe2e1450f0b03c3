"""Worksheets: opened by name or path, edited into new ones, and never changed."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from manyheads.core.errors import WorksheetError
from manyheads.worksheets.library import worksheet, worksheet_names
from tests.factories import annotations_unchecked
from tests.worksheets.samples import full_document, sheet_of, small_document


def test_names_are_those_of_the_files_and_open() -> None:
    assert worksheet_names() == ("river-and-cheque", "three-heads", "two-routes")
    assert [worksheet(name).name for name in worksheet_names()] == list(worksheet_names())


def test_own_file_is_opened_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(small_document()), encoding="utf-8")
    assert worksheet(path) == worksheet(str(path)) == sheet_of(small_document())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "two-rouds",
            r"^worksheet \(two-rouds\) is neither a name nor a file: use river-and-cheque",
        ),
        ("./none.json", r"^file \(\./none\.json\) does not exist"),
        ("./" + "n" * 198, r"^file \(\./n{198}\) does not exist"),
        ("./" + "n" * 199, r"^file \(\./n{195}\.\.\.\) does not exist"),
        (".", r"^file \(\.\) cannot be opened \(is a folder\)"),
        ("/dev/null", r"^file \(/dev/null\) cannot be opened \(is a device\)"),
        ("a\0.json", r"^file \(a\\x00\.json\) "),
        ("x" * 5000 + ".json", r"^file \(x+\.\.\.\) cannot be opened \(File name too long\)"),
        ("", r"^worksheet \(\) is neither|^file \(\) "),
    ],
)
def test_what_cannot_be_opened_is_named(name: str, message: str) -> None:
    with pytest.raises(WorksheetError, match=message):
        worksheet(name)


def test_error_in_a_file_names_file_and_place(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(small_document() | {"b_O": [1]}), encoding="utf-8")
    with pytest.raises(WorksheetError, match=r"^file \(.*mine\.json\): b_O \(1 number\)"):
        worksheet(path)


def test_edit_returns_a_new_worksheet_and_recomputes_all() -> None:
    sheet = worksheet("two-routes")
    edited = sheet.edit({"heads.0.W_Q[3][1]": "1/2", "heads[0].W_K[2][1]": "ln(2)"})
    assert edited.heads[0].w_q[3][1] == Fraction(1, 2)
    assert sheet.heads[0].w_q[3][1] == 0 and sheet == worksheet("two-routes")
    before, after = (s.solve(exact=True) for s in (sheet, edited))
    assert (before.q[0] != after.q[0]).any() and (before.output != after.output).any()
    assert (before.q[1] == after.q[1]).all()
    assert sheet.edit({}) == sheet


@pytest.mark.parametrize("value", [0.5, "1/2", "0.5", Fraction(1, 2), "5e-1"])
def test_edit_takes_numbers_and_texts(value: object) -> None:
    edited = worksheet("two-routes").edit({"W_O[0][1]": value})
    assert edited.w_o[0][1] == Fraction(1, 2)
    assert sheet_of(json.loads(edited.to_json())).w_o == edited.w_o


def test_edit_reaches_every_kind_of_given_number() -> None:
    sheet = sheet_of(full_document())
    places = (
        *("b_O[0]", "scale", "heads[0].b_Q[0]", 'token_embedding["to be"][1]'),
        *("token_embedding.go[0]", 'token_embedding["x.y"][0]', "position_embedding[1][2]"),
        *("prediction.W_hidden[0][1]", "prediction.b_vocab[3]"),
    )
    for place in places:
        assert sheet.edit({place: "7/8"}) != sheet, place
    assert sheet.edit({"residual": "false"}).has_residual is False
    assert sheet.edit({"is_causal": True}).is_causal is True
    assert worksheet("two-routes").edit({"scale": "1/3"}).scale == Fraction(1, 3)
    assert worksheet("three-heads").edit({"sequences.main.X[0][1]": 1}).sequences[0].x[0][1] == 1


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("heads.0.W_Q[9][1]", "1", r"heads\[0\]\.W_Q\[9\] does not exist: .* has 4 entries"),
        ("heads.7.W_Q[0][0]", "1", r"heads\[7\] does not exist: heads has 2 entries"),
        ("heads.0.W_X[0][0]", "1", r"heads\[0\]\.W_X does not exist: heads\[0\] has label, W_Q"),
        ("heads.0.b_Q[0]", "1", r"heads\[0\]\.b_Q does not exist"),
        (
            "heads.0.W_Q",
            "1",
            r"heads\[0\]\.W_Q is not a single number: .* heads\[0\]\.W_Q\[0\]\[0\]",
        ),
        ("heads.0.label", "1", r"heads\[0\]\.label is not a single number"),
        ("name", "1", "name is not a single number"),
        ("expected.main.receiver", "1", r"expected\.main\.receiver is not a single number"),
        ("sequences.main.tokens[0]", "1", r"tokens\[0\] is not a single number"),
        ("W_O[0][0][0]", "1", r"W_O\[0\]\[0\]\[0\] has an index into a single value"),
        ("W_O[0][0]", "1/0", r"W_O\[0\]\[0\] \('1/0'\) divides by zero"),
        ("W_O[0][0]", "", r"W_O\[0\]\[0\] \(''\) ends too early"),
        ("W_O[0][0]", True, r"W_O\[0\]\[0\] \(true\) must be a number"),
        ("W_O[0][0]", None, r"W_O\[0\]\[0\] \(null\) must be a number"),
        ("scale", "-1", r"scale \('?-1'?\) must be positive"),
        ("is_causal", "maybe", r"is_causal \('maybe'\) must be true or false"),
        ("", "1", r"place \(''\) cannot be read"),
        ("W_O[-1][0]", "1", r"place \('W_O\[-1\]\[0\]'\) cannot be read"),
        ("W_O[0]x", "1", "cannot be read"),
        ("W_O.0.0.", "1", "cannot be read"),
        ("__class__", "1", "__class__ does not exist"),
        ("x" * 1000, "1", "cannot be read"),
    ],
)
def test_wrong_edit_is_named(place: str, value: object, message: str) -> None:
    with pytest.raises(WorksheetError, match=message):
        worksheet("two-routes").edit({place: value})


def test_worksheet_shows_itself_in_80_columns() -> None:
    for name in worksheet_names():
        lines = str(worksheet(name)).splitlines()
        assert max(map(len, lines)) <= 80
        assert lines[0] == f"{name}: {worksheet(name).title}"
    assert "sqrt(2)" in str(worksheet("two-routes"))
    assert (
        repr(worksheet("two-routes")) == "<Worksheet two-routes: Two routes over the same values>"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: worksheet(None), r"^worksheet \(None\) must be a name or a path: use river"),
        (lambda: worksheet(3), r"^worksheet \(3\) must be a name or a path"),
        (lambda: worksheet("two-routes").edit(None), r"^changes \(None\) must be a dict of places"),
        (lambda: worksheet("two-routes").edit({3: 1}), r"^place \(3\) must be text: write it"),
        (
            lambda: worksheet("two-routes").explain(3),
            r"^quantity \(3\) must be text: use main\.output\[0\]\[0\]",
        ),
    ],
)
def test_an_argument_of_another_kind_is_named(call: Callable[[], object], message: str) -> None:
    with annotations_unchecked(), pytest.raises(WorksheetError, match=message):
        call()
