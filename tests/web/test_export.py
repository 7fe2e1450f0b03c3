"""The page's numbers are the worksheets' numbers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from manyheads.core.errors import ConfigError
from manyheads.web.export import main, page_data, write_page_data
from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.library import worksheet, worksheet_names
from manyheads.worksheets.numbers import parse_number

DATA = page_data()


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


def test_the_same_worksheets_give_the_same_bytes(tmp_path: Path) -> None:
    write_page_data(tmp_path / "a" / "one.json")
    assert main([str(tmp_path / "two.json")]) == 0
    one, two = (tmp_path / "a" / "one.json").read_bytes(), (tmp_path / "two.json").read_bytes()
    assert one == two
    assert json.loads(one) == DATA
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["one.json"]


def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match=r"OUT \(.*folder\) cannot be written"):
        write_page_data(tmp_path / "folder")
    assert main([str(tmp_path / "folder")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_exporting_does_not_load_torch(tmp_path: Path) -> None:
    out = tmp_path / "page.json"
    code = (
        "import sys; from manyheads.web.export import main; "
        f"assert main([{str(out)!r}]) == 0; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert out.is_file()
