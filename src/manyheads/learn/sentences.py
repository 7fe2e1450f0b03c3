"""Sentences with computed numbers in them: `{{two-routes:main.attn_weights[0][1][0]}}`.

The author of a question, a card or a rubric names a number; the engine computes it. A number
keeps its name and its full precision, so that a page can show where it comes from.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from manyheads.core.errors import LearnError
from manyheads.worksheets.arithmetic import Number, float_of
from manyheads.worksheets.display import fraction_text, rounded
from manyheads.worksheets.exact import Steps, scale_of, solve_exact
from manyheads.worksheets.library import Worksheet, worksheet, worksheet_names
from manyheads.worksheets.numbers import parse_number
from manyheads.worksheets.places import found, parsed
from manyheads.worksheets.quantities import Quantity, quantity_from_text, value_at

_PLACE = re.compile(r"\{\{([^|{}]+)(?:\|([^{}]*))?\}\}")


@dataclass(frozen=True, kw_only=True)
class Quoted:
    """A number in a sentence."""

    quantity: str
    """Its name, such as `two-routes:main.output[1][0]`, counted from 0."""
    value: float
    """Full precision."""
    text: str
    """As the reader sees it."""


Part = str | Quoted


@dataclass(frozen=True)
class Sentence:
    """A sentence: texts and numbers in turn."""

    parts: tuple[Part, ...]
    """In reading order."""

    def __str__(self) -> str:
        """The sentence as plain text."""
        return "".join(part if isinstance(part, str) else part.text for part in self.parts)

    def to_json(self) -> list[str | dict[str, str | float]]:
        """Texts, and numbers as objects with quantity, value and text."""
        return [
            part
            if isinstance(part, str)
            else {"quantity": part.quantity, "value": part.value, "text": part.text}
            for part in self.parts
        ]


def filled(template: str, computed: Mapping[str, Number] | None = None) -> Sentence:
    """Fill the numbers of a sentence in.

    Args:
        template: text; `{{NAME}}` is a number in its exact form where that is short,
            `{{NAME|3}}` the same with three decimals, `{{NAME|percent}}` as a whole percentage.
        computed: further numbers by name; all other names are a worksheet's, such as
            `two-routes:main.output[1][0]` or `two-routes:heads.0.W_Q[0][1]`.

    Raises:
        LearnError: no such number, or a form that is not known.
        WorksheetError: no such number in the worksheet.
    """
    parts: list[Part] = []
    end = 0
    for match in _PLACE.finditer(template):
        parts.append(template[end : match.start()])
        name, form = match[1].strip(), match[2] or ""
        value = number_named(name, computed or {})
        parts.append(Quoted(quantity=name, value=float_of(value), text=_shown(value, form, name)))
        end = match.end()
    parts.append(template[end:])
    return Sentence(tuple(part for part in parts if part != ""))


def number_named(name: str, computed: Mapping[str, Number]) -> Number:
    """Look a number up, exact where the engine knows it exactly.

    Raises:
        LearnError: no such number.
        WorksheetError: no such number in the worksheet.
    """
    if name in computed:
        return computed[name]
    sheet_name, colon, place = name.partition(":")
    if not colon or sheet_name not in worksheet_names():
        raise LearnError(f"number ({name}) is not known: name a worksheet's, or compute it")
    sheet = _opened(sheet_name)
    quantity = quantity_from_text(sheet, place)
    if isinstance(quantity, Quantity):
        steps = _solved(sheet_name, quantity.sequence)
        return value_at(steps, quantity.field.name, quantity.index)
    if quantity == "scale":
        return scale_of(sheet)
    return parse_number(found(sheet.document, parsed(quantity)), quantity)


@cache
def _opened(name: str) -> Worksheet:
    return worksheet(name)


@cache
def _solved(name: str, sequence: str) -> Steps:
    return solve_exact(_opened(name), sequence)


def value_text(value: Number) -> str:
    """Write a number: the exact form if it is short, and a decimal, as in `26/7 = 3.714`."""
    exact, decimals = fraction_text(value), rounded(float_of(value))
    is_short = exact == decimals or (isinstance(value, Fraction) and value.denominator == 1)
    return exact if is_short else f"{exact} = {decimals}"


def _shown(value: Number, form: str, name: str) -> str:
    if form == "":
        return fraction_text(value)
    if form == "percent":
        return f"{100 * float_of(value):.0f} %"
    if form.isdecimal() and int(form) <= 15:
        return f"{float_of(value):.{form}f}"
    raise LearnError(f"form ({form}) of {name} is not known: use percent or a number of decimals")
