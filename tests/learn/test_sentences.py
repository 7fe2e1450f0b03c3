"""Sentences whose numbers the engine fills in."""

from fractions import Fraction

import pytest

from manyheads.core.errors import LearnError, WorksheetError
from manyheads.learn.sentences import filled
from manyheads.worksheets.library import worksheet

NAME = "two-routes:main.attn_weights[0][1][0]"


def test_a_number_keeps_its_name_its_precision_and_its_exact_text() -> None:
    weight = worksheet("two-routes").solve("main", exact=True)["attn_weights"][0, 1, 0]
    said = filled(f"The weight is {{{{{NAME}}}}}.")
    assert said.to_json() == [
        "The weight is ",
        {"quantity": NAME, "value": float(weight), "text": str(weight)},
        ".",
    ]
    assert str(said) == f"The weight is {weight}."


def test_a_number_is_shown_with_decimals_or_as_a_percentage() -> None:
    said = filled("{{third|2}} is {{third|percent}}", {"third": Fraction(1, 3)})
    assert str(said) == "0.33 is 33 %"


def test_given_numbers_and_the_scale_have_names_too() -> None:
    sheet = worksheet("two-routes")
    said = filled("{{two-routes:heads.0.W_Q[0][0]}} and {{two-routes:scale|6}}")
    query = sheet.document["heads"][0]["W_Q"][0][0]
    assert str(said) == f"{query} and {sheet.head_dim**-0.5:.6f}"


@pytest.mark.parametrize("name", ["nothing", "no-sheet:main.output[0][0]"])
def test_an_unknown_number_is_named(name: str) -> None:
    with pytest.raises(LearnError, match=rf"number \({name}"[:20]):
        filled(f"{{{{{name}}}}}")


def test_an_unknown_place_of_a_worksheet_is_named() -> None:
    with pytest.raises(WorksheetError, match="nonsense"):
        filled("{{two-routes:nonsense[0]}}")


def test_an_unknown_form_is_named() -> None:
    with pytest.raises(LearnError, match=r"form \(roman\)"):
        filled(f"{{{{{NAME}|roman}}}}")
