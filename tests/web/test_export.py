"""The page's numbers are the worksheets' numbers."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.library import worksheet, worksheet_names
from manyheads.worksheets.numbers import parse_number
from tools.page import __main__ as module
from tools.page.__main__ import DATA as DOCUMENTS
from tools.page.__main__ import main, write_all
from tools.page.worksheets import worksheets_data
from tools.page_fixtures.__main__ import FIXTURES

DATA = worksheets_data()


def pairs(values: Any, exact: Any) -> list[tuple[float, str | None]]:
    if isinstance(values, list):
        assert len(values) == len(exact)
        return [pair for both in zip(values, exact, strict=True) for pair in pairs(*both)]
    return [(values, exact)]


def tables(node: Any) -> list[dict[str, Any]]:
    """Every table of numbers in the document."""
    if isinstance(node, dict):
        if node.keys() == {"values", "exact"}:
            return [node]
        return [table for child in node.values() for table in tables(child)]
    return [table for child in node for table in tables(child)] if isinstance(node, list) else []


def test_every_worksheet_is_exported_in_order() -> None:
    assert [sheet["name"] for sheet in DATA["worksheets"]] == list(worksheet_names())


def test_every_given_number_is_written_whole() -> None:
    checked = 0
    for table in tables(DATA):
        for value, exact in pairs(table["values"], table["exact"]):
            assert exact is not None
            assert float_of(parse_number(exact)) == value
            checked += 1
    assert checked > 300


@pytest.mark.parametrize("sheet", DATA["worksheets"], ids=lambda sheet: sheet["name"])
def test_every_sentence_has_its_rows_or_the_names_of_them(sheet: dict[str, Any]) -> None:
    given = worksheet(sheet["name"])
    for written, sequence in zip(sheet["sequences"], given.sequences, strict=True):
        assert written["tokens"] == list(sequence.tokens)
        if written["token_keys"] is None:
            rows = [[float_of(number) for number in row] for row in sequence.x]
            assert written["X"]["values"] == rows
        else:
            assert written["X"] is None
            assert set(written["token_keys"]) <= sheet["token_embedding"].keys()


def test_no_answer_is_written_that_the_page_works_out_itself() -> None:
    text = json.dumps(DATA)
    assert not any(name in text for name in ("attn_weights", "head_outputs", "logits"))


@pytest.mark.slow
@pytest.mark.parametrize("make", [*DOCUMENTS.values(), *FIXTURES.values()])
def test_the_same_engine_gives_the_same_document(make: Callable[[], Any]) -> None:
    assert json.dumps(make()) == json.dumps(make())


def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    assert main([str(blocked)]) == 2
    message = capsys.readouterr().err
    assert re.fullmatch(r"Error: OUT \(.*file.*\) cannot be written .*\n", message)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_documents_are_written_whole_and_without_models_or_packages_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DATA", {"worksheets.json": worksheets_data})
    monkeypatch.setattr(module, "write_exercise_scripts", lambda _: None)
    monkeypatch.setattr(module, "notebook_files", lambda _: {"format": 1, "notebooks": []})
    monkeypatch.setattr(module, "write_papers", lambda _: {"format": 1, "papers": []})
    stale = tmp_path / "files" / "onnx" / "old.onnx"
    stale.parent.mkdir(parents=True)
    stale.touch()
    write_all(tmp_path, None)
    assert json.loads((tmp_path / "worksheets.json").read_bytes()) == DATA
    assert json.loads((tmp_path / "models.json").read_bytes())["runtime"] is None
    assert not stale.parent.exists()
