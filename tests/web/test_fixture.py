"""What the page's engine is compared with: the exact engine's answers, and lines that run."""

import math
import random
from typing import Any

import numpy as np
import pytest

from manyheads.worksheets.interventions import one_wide_head, without_head, zero_query
from manyheads.worksheets.library import worksheet
from tools.page_fixtures import worksheets as module
from tools.page_fixtures.worksheets import (
    NUMBER_TEXTS,
    changed_sheet,
    fixture,
    mark,
    weighted_sum,
)


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    """What the tests of the page compare with, with fewer edits."""
    return fixture(edits=12)


@pytest.fixture(scope="module")
def steps(written: dict[str, Any]) -> list[dict[str, Any]]:
    """Every step of every explanation."""
    return [step for sheet in written["explanations"] for step in sheet["steps"]]


def test_every_quantity_of_every_sentence_is_there(written: dict[str, Any]) -> None:
    for sheet in written["worksheets"]:
        given = worksheet(sheet["name"])
        assert [sequence["name"] for sequence in sheet["sequences"]] == list(given.sequence_names)
        for sequence in sheet["sequences"]:
            solution = given.solve(sequence["name"])
            fields = sequence["fields"]
            assert fields.keys() == {*solution.fields, "weighted_values"}
            for name in solution.fields:
                values = np.array([float(value) for value in fields[name]["values"]])
                found = values.reshape(fields[name]["shape"])
                np.testing.assert_allclose(found, solution[name], rtol=1e-12, atol=1e-12)


def test_every_number_that_explains_another_is_explained_too(written: dict[str, Any]) -> None:
    for sheet in written["explanations"]:
        names = {step["quantity"] for step in sheet["steps"]}
        used = {name for step in sheet["steps"] for term in step["terms"] for name in term}
        assert used <= names
        assert any(step["given"] for step in sheet["steps"])


def test_the_line_of_python_computes_the_number(steps: list[dict[str, Any]]) -> None:
    for step in steps:
        names: dict[str, Any] = {}
        exec(step["python"], names)
        wanted = float(step["value"])
        assert math.isclose(names["value"], wanted, rel_tol=1e-12, abs_tol=1e-12) or (
            names["value"] == wanted
        ), step["quantity"]


def test_all_kinds_of_steps_occur(steps: list[dict[str, Any]]) -> None:
    kinds = {"given", "sum", "root", "blocked", "power", "ratio", "rectified", "softmax"}
    assert {step["kind"] for step in steps} == kinds


def test_the_same_seed_gives_the_same_edits_and_another_one_others(written: dict[str, Any]) -> None:
    again = list(module._edit_cases(4, random.Random(module.SEED)))
    assert again == written["edits"][:4]
    assert again != list(module._edit_cases(4, random.Random(1)))


def test_an_edit_case_is_what_the_worksheet_then_gives(written: dict[str, Any]) -> None:
    for case in written["edits"]:
        sheet = changed_sheet(worksheet(case["worksheet"]).edit(case["edits"]), case["options"])
        solution = sheet.solve(case["sequence"])
        for name in ("output", "concat"):
            values = [float(value) for value in case["row"][name]["values"]]
            np.testing.assert_allclose(
                values, solution[name][case["receiver"]], rtol=1e-9, atol=1e-9
            )


def test_options_change_what_they_say() -> None:
    sheet = worksheet("three-heads")
    options = {"headsOff": [0, 2], "zeroQuery": True, "wide": True, "causal": False}
    by_hand = one_wide_head(zero_query(without_head(without_head(sheet, 0), 2)))
    changed = changed_sheet(sheet, options)
    assert (changed.num_heads, changed.is_causal) == (1, False)
    assert changed.text == by_hand.edit({"is_causal": False}).text
    assert changed_sheet(sheet, {}) is sheet


def test_one_changed_number_changes_sum_and_mark() -> None:
    table = worksheet("two-routes").solve(exact=True).numbers["output"]
    other = table.copy()
    other[1, 2] = other[1, 2] + 1
    assert weighted_sum(other) != weighted_sum(table)
    assert mark(other) != mark(table)
    swapped = table[[1, 0, 2]]
    assert weighted_sum(swapped) != weighted_sum(table)


def test_number_texts_are_read_or_refused(written: dict[str, Any]) -> None:
    cases = {case["text"]: case for case in written["numbers"]}
    assert cases.keys() == set(NUMBER_TEXTS)
    assert cases["ln(4/9)/2"]["exact"] == "-ln(3/2)"
    assert "divides by zero" in cases["1/0"]["error"]
    assert sum("error" in case for case in cases.values()) > 15
