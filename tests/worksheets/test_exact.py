"""The exact answers: fractions where they are fractions, and equal to the float forms elsewhere."""

from decimal import Decimal
from fractions import Fraction
from functools import cache, reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.core.config import TRACED_FORMS
from manyheads.worksheets.arithmetic import add, decimal_of, is_exact
from manyheads.worksheets.exact import softmax, solve_exact
from manyheads.worksheets.fields import fields_of
from manyheads.worksheets.interventions import zero_query
from manyheads.worksheets.library import worksheet, worksheet_names
from manyheads.worksheets.numbers import parse_number
from manyheads.worksheets.solution import Solution
from manyheads.worksheets.tensors import solve_float

SENTENCES = [(n, s) for n in worksheet_names() for s in worksheet(n).sequence_names]


@cache
def solved(name: str, sequence: str) -> Solution:
    return worksheet(name).solve(sequence, exact=True)


@pytest.mark.parametrize(("name", "sequence"), SENTENCES)
@pytest.mark.parametrize("form", TRACED_FORMS)
def test_float_form_equals_exact_answers_in_every_field(
    name: str, sequence: str, form: str
) -> None:
    sheet = worksheet(name)
    floats = solve_float(sheet, sequence, form)
    exact = solved(name, sequence)
    assert set(floats) == set(exact.numbers) == {field.name for field in fields_of(sheet)}
    for field in exact.fields:
        assert floats[field].shape == exact.numbers[field].shape, field
        want = exact[field].astype(np.float64)
        np.testing.assert_allclose(floats[field], want, rtol=1e-12, atol=1e-12, err_msg=field)


@pytest.mark.parametrize(("name", "sequence"), SENTENCES)
def test_first_row_is_one_and_blocked_sources_are_zero_exactly(name: str, sequence: str) -> None:
    weights = solved(name, sequence).numbers["attn_weights"]
    for head in weights:
        assert head[0][0] == Fraction(1) and type(head[0][0]) is Fraction
        for t, row in enumerate(head):
            assert all(type(w) is Fraction and w == 0 for w in row[t + 1 :])
            assert abs(decimal_of(reduce(add, row)) - 1) < Decimal("1e-60")


@pytest.mark.parametrize("name", worksheet_names())
def test_zero_queries_weigh_all_that_is_seen_alike_exactly(name: str) -> None:
    weights = solve_exact(zero_query(worksheet(name)))["attn_weights"]
    for head in weights:
        for t, row in enumerate(head):
            assert row[: t + 1] == (Fraction(1, t + 1),) * (t + 1)
            assert all(type(weight) is Fraction for weight in row)


@pytest.mark.parametrize("name", ["two-routes", "three-heads"])
def test_every_answer_of_a_worksheet_of_logarithms_is_exact(name: str) -> None:
    solution = solved(name, "main")
    for field in solution.fields:
        assert all(is_exact(number) for number in solution.numbers[field].flat), field


def test_contributions_and_bias_add_up_exactly() -> None:
    solution = solved("three-heads", "main")
    bias = np.array(worksheet("three-heads").b_o, dtype=object)
    assert (solution.head_contributions.sum(axis=0) + bias == solution.output).all()


scores = st.lists(st.fractions(-9, 9, max_denominator=20), min_size=1, max_size=5)


@given(scores, st.fractions(-9, 9, max_denominator=20))
@settings(max_examples=40)
def test_softmax_does_not_change_when_all_scores_shift(row: list, shift: Fraction) -> None:
    moved = softmax([score + shift for score in row])
    for a, b in zip(softmax(row), moved, strict=True):
        assert abs(decimal_of(a) - decimal_of(b)) < Decimal("1e-60")


def test_softmax_of_equal_irrational_offsets_is_rational() -> None:
    row = [parse_number(text) for text in ("sqrt(2)", "sqrt(2) + ln(3)", "sqrt(2) - ln(2)")]
    assert softmax(row) == (Fraction(2, 9), Fraction(6, 9), Fraction(1, 9))


def test_softmax_of_huge_scores_neither_overflows_nor_hangs() -> None:
    row = [Fraction(10) ** 100, Fraction(-(10**100)), Fraction(0)]
    assert [float(weight) for weight in softmax(row)] == [1.0, 0.0, 0.0]


def test_exact_solving_does_not_load_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys, manyheads.worksheets as w; assert 'sympy' not in sys.modules;"
        "s = w.worksheet('river-and-cheque').solve('river', exact=True); str(s); s.to_json();"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
