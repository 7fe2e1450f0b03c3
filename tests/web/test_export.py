"""The page's numbers are the worksheets' numbers."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyheads.core.errors import ConfigError
from manyheads.web.export import main, page_data, weighted_values, write_page_data
from manyheads.worksheets.arithmetic import float_of
from manyheads.worksheets.library import worksheet, worksheet_names
from manyheads.worksheets.numbers import parse_number

DATA = page_data()


def pairs(values: Any, exact: Any) -> list[tuple[float | None, str | None]]:
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


@pytest.mark.parametrize("sheet", DATA["worksheets"], ids=lambda sheet: sheet["name"])
def test_every_answer_equals_the_float_form(sheet: dict[str, Any]) -> None:
    for sequence in sheet["sequences"]:
        solution = worksheet(sheet["name"]).solve(sequence["name"])
        assert set(solution.fields) < set(sequence["fields"])
        for name in solution.fields:
            given = np.array(sequence["fields"][name]["values"], dtype=float)
            given[np.isnan(given)] = -np.inf
            np.testing.assert_allclose(given, solution[name], rtol=1e-12, atol=1e-12)


def test_exact_text_says_the_same_as_the_value() -> None:
    checked = 0
    for table in tables(DATA):
        for value, exact in pairs(table["values"], table["exact"]):
            if exact is not None:
                assert float_of(parse_number(exact)) == value
                checked += 1
    assert checked > 1000


def test_a_blocked_score_has_neither_value_nor_text() -> None:
    scores = DATA["worksheets"][0]["sequences"][0]["fields"]["masked_scores"]
    assert (scores["values"][0][0][1], scores["exact"][0][0][1]) == (None, None)


def test_weighted_values_are_the_published_contributions_of_sources() -> None:
    solution = worksheet("river-and-cheque").solve("river", exact=True)
    handed = weighted_values(solution)
    assert [round(float(part), 3) for part in handed[0, 9, 5]] == [2.225, -0.072]
    assert [round(float(part), 3) for part in handed[1, 9, 1]] == [1.455, 0]


def test_weighted_values_stay_exact_and_add_up_to_the_message() -> None:
    solution = worksheet("three-heads").solve(exact=True)
    handed = weighted_values(solution)
    assert handed.shape == (3, 4, 4, 2)
    assert handed[2, 3, 3, 0] == Fraction(-9, 14)
    assert (handed.sum(axis=2) == solution["head_outputs"]).all()


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
