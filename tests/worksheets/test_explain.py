"""Explanations: the arithmetic of every number is right, and ends at numbers of the file."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import pytest

from manyheads.core.errors import WorksheetError
from manyheads.worksheets.arithmetic import (
    NEGATIVE_INFINITY,
    ONE,
    ZERO,
    Number,
    add,
    decimal_of,
    exponential,
    is_exact,
    is_positive,
    multiply,
    reciprocal,
    square_root,
)
from manyheads.worksheets.exact import softmax
from manyheads.worksheets.explain import Explainer, Explanation
from manyheads.worksheets.fields import Recipe, fields_of
from manyheads.worksheets.library import Worksheet, worksheet, worksheet_names
from manyheads.worksheets.numbers import parse_number
from manyheads.worksheets.places import found, parsed
from manyheads.worksheets.quantities import axis_size, name_of
from tests.worksheets.samples import sheet_of, small_document, uncausal_sheet

SENTENCES = [(n, s) for n in worksheet_names() for s in worksheet(n).sequence_names]


def evaluated(recipe: Recipe, value: Callable[[str], Number], head_dim: int) -> Number:
    """Do the arithmetic of a recipe that is not `given`.

    Args:
        recipe: how the number is made.
        value: finds the numbers that are used, by name.
        head_dim: d, of which `root` takes 1/sqrt(d).
    """
    values = [value(name) for name in recipe.uses] if recipe.kind != "sum" else []
    plain: Mapping[str, Callable[[], Number]] = {
        "sum": lambda: _added(recipe.terms, value),
        "root": lambda: reciprocal(square_root(Fraction(head_dim))),
        "blocked": lambda: NEGATIVE_INFINITY,
        "power": lambda: exponential(values[0]),
        "ratio": lambda: multiply(values[0], reciprocal(values[1])),
        "rectified": lambda: values[0] if is_positive(values[0]) else ZERO,
        "softmax": lambda: softmax(values)[0],
    }
    return plain[recipe.kind]()


def _added(terms: tuple[tuple[str, ...], ...], value: Callable[[str], Number]) -> Number:
    total: Number = ZERO
    for names in terms:
        product: Number = ONE
        for name in names:
            product = multiply(product, value(name))
        total = add(total, product)
    return total


def all_names(sheet: Worksheet, sequence: str) -> list[str]:
    """The name of every number of a solved sentence."""
    names = []
    for field in fields_of(sheet):
        sizes = [axis_size(sheet, sequence, axis) for axis in field.axes]
        names += [name_of(sequence, field.name, *i) for i in product(*map(range, sizes))]
    return names


@cache
def explainer(name: str) -> Explainer:
    return Explainer(worksheet(name))


@cache
def explained(name: str, quantity: str) -> Explanation:
    return explainer(name).explain(quantity)


def assert_right(sheet: Worksheet, explanation: Explanation) -> None:
    """Do the arithmetic of every step again and look every given number up in the file."""
    values = {step.quantity: step.value for step in explanation.steps}
    assert len(values) == len(explanation.steps), "a quantity is explained twice"
    for step in explanation.steps:
        assert set(step.uses) <= values.keys()
        if step.given:
            written = found(sheet.document, parsed(step.quantity))
            assert parse_number(written) == step.value, step.quantity
            continue
        recipe = Recipe(kind=step.kind, terms=step.terms)
        again = evaluated(recipe, values.__getitem__, sheet.head_dim)
        assert_equal(again, step.value, step.quantity)


def assert_equal(again: Any, value: Any, place: str) -> None:
    """Compare exactly where both are exact, else to 50 digits."""
    if is_exact(again) and is_exact(value):
        assert again == value, place
    else:
        gap = abs(decimal_of(again) - decimal_of(value))
        assert gap <= Decimal("1e-50") * max(1, abs(decimal_of(value))), place


@pytest.mark.parametrize(("name", "sequence"), SENTENCES)
def test_arithmetic_of_the_last_rows_numbers_is_right_down_to_the_file(
    name: str, sequence: str
) -> None:
    sheet = worksheet(name)
    last = len(sheet.sequence(sequence).tokens) - 1
    end = fields_of(sheet)[-1].name
    quantity = f"{end}[{last}][0]" if end == "probabilities" else f"{end}[1][{last}][0]"
    explanation = explainer(name).explain(f"{sequence}.{quantity}")
    assert any(step.given for step in explanation.steps)
    assert_right(sheet, explanation)


@pytest.mark.parametrize(("name", "sequence"), SENTENCES)
def test_every_number_is_explained_by_right_arithmetic(name: str, sequence: str) -> None:
    finder = explainer(name)
    names = all_names(worksheet(name), sequence)
    for quantity in names[:: max(1, len(names) // 400)]:
        step = finder.step(quantity)
        assert (step.quantity, step.given) == (quantity, False)
        recipe = Recipe(kind=step.kind, terms=step.terms)
        assert_equal(evaluated(recipe, finder.value, finder.sheet.head_dim), step.value, quantity)


def test_a_wrong_step_is_seen() -> None:
    sheet = worksheet("two-routes")
    explanation = sheet.explain("output[2][0]")
    first, *others = explanation.steps
    wrong = replace(explanation, steps=(replace(first, terms=first.terms[:1]), *others))
    with pytest.raises(AssertionError, match=r"main\.output\[2\]\[0\]"):
        assert_right(sheet, wrong)


def test_every_field_of_a_sheet_without_mask_and_with_given_scale_is_right() -> None:
    sheet = uncausal_sheet()
    finder = Explainer(sheet)
    for field in fields_of(sheet):
        quantity = field.name + "[0]" * len(field.axes)
        assert_right(sheet, finder.explain(quantity))
    assert {step.quantity for step in finder.explain("scores[0][0][1]").steps if step.given} >= {
        "scale"
    }


def test_river_output_shows_the_arithmetic_of_the_lesson() -> None:
    explanation = explained("river-and-cheque", "river.output[9][0]")
    first = explanation.steps[0]
    assert first.formula == "3.005 = 2.617 x 1 + 1.552 x 0.25"
    assert first.zero_terms == 2
    text = str(explanation)
    assert "3.005 = 2.617 x 1 + 1.552 x 0.25   (2 zero terms left out)" in text
    assert "131.504 = e^4.879" in text
    assert "4.879 = 6.9 x 0.707" in text
    assert "0.718 = 131.504 / 183.244" in text
    assert "heads[0].W_Q[3][0]" in text
    assert max(map(len, text.splitlines())) <= 80


def test_fractions_stay_fractions_in_a_worksheet_of_fractions() -> None:
    explanation = explained("two-routes", "output[2][0]")
    assert explanation.quantity == "main.output[2][0]"
    assert explanation.steps[0].formula == "40/7 = 26/7 x 1 + 2 x 1"
    texts = {step.quantity: step.formula for step in explanation.steps}
    assert texts["main.exp_scores[1][2][1]"] == "1/2 = e^(-ln(2))"
    assert texts["main.attn_weights[1][2][0]"] == "4/7 = 1 / (7/4)"
    assert texts["scale"] == "sqrt(2)/2 = 1/sqrt(2)"


def test_blocked_sources_say_so() -> None:
    steps = worksheet("two-routes").explain("attn_weights[0][0][2]").steps
    kinds = {step.quantity: step.kind for step in steps}
    assert kinds["main.masked_scores[0][0][2]"] == "blocked"
    assert steps[0].value == 0


def test_depth_cuts_and_says_so() -> None:
    sheet = worksheet("two-routes")
    cut = sheet.explain("output[2][0]", depth=1)
    assert [step.quantity for step in cut.steps] == ["main.output[2][0]"]
    assert set(cut.cut) == set(cut.steps[0].uses)
    assert "Not explained: 4 more numbers" in str(cut)
    assert sheet.explain("output[2][0]", depth=100).cut == ()


def test_explanation_json_is_complete() -> None:
    document = json.loads(explained("two-routes", "output[2][0]").to_json())
    assert document["quantity"] == "main.output[2][0]"
    first, *others = document["steps"]
    assert first["value"] == 40 / 7 and first["exact"] == "40/7"
    assert first["uses"] == ["main.concat[2][0]", "W_O[0][0]", "main.concat[2][2]", "W_O[2][0]"]
    given = [step for step in others if step["given"]]
    assert given and all(step["uses"] == [] for step in given)
    blocked = json.loads(worksheet("two-routes").explain("masked_scores[0][0][1]").to_json())
    assert blocked["steps"][0]["value"] is None


@pytest.mark.parametrize(
    ("name", "quantity", "message"),
    [
        ("river-and-cheque", "output[9][0]", r"has no sequence: use river\.output\[9\]\[0\] or"),
        ("river-and-cheque", "river.outputs[9][0]", r"has outputs after river: use x, q"),
        ("river-and-cheque", "river", "has nothing after river"),
        (
            "river-and-cheque",
            "lake.output[9][0]",
            "does not begin with a sequence, field or given table",
        ),
        ("river-and-cheque", "river.output[10][0]", "has receiver 10, but the last is 9"),
        ("river-and-cheque", "river.output[9]", r"expected 2: write river\.output\[receiver\]"),
        ("river-and-cheque", "river.output[9][0][0]", "has 3 indices, expected 2"),
        ("river-and-cheque", "river.output[9].x", "has 2 indices|cannot|expected"),
        ("river-and-cheque", "", "cannot be read"),
        ("river-and-cheque", "river.output[-1][0]", "cannot be read"),
        ("river-and-cheque", "heads[0].W_Q", r"not a single number: use heads\[0\]\.W_Q\[0\]\[0\]"),
        ("river-and-cheque", "heads[2].W_Q[0][0]", "has 2 entries"),
        ("two-routes", "logits[0][0]", "does not begin with a sequence, field or given table"),
        ("two-routes", "heads[0].label", "has|no number|cannot"),
    ],
)
def test_wrong_quantities_are_named(name: str, quantity: str, message: str) -> None:
    with pytest.raises(WorksheetError, match=message):
        explainer(name).explain(quantity)


@pytest.mark.parametrize("depth", [0, -1])
def test_wrong_depth_is_named(depth: int) -> None:
    with pytest.raises(WorksheetError, match=rf"depth \({depth}\) must be at least 1"):
        worksheet("two-routes").explain("output[0][0]", depth)


def test_worksheet_name_may_stand_before_the_quantity() -> None:
    explanation = worksheet("two-routes").explain("two-routes:main.output[2][0]")
    assert explanation.quantity == "main.output[2][0]"


def test_a_sum_of_zeros_keeps_its_terms_and_another_leaves_its_zeros_out() -> None:
    def formula(quantity: str) -> str:
        return sheet_of(small_document()).explain(quantity).steps[0].formula

    assert formula("main.k[0][0][0]") == "0 = 1 x 0 + 0 x 1"
    assert formula("main.q[0][0][0]") == "1 = 1 x 1"
