"""The arithmetic behind one number, step by step, down to the numbers that were given."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from manyheads.core.errors import WorksheetError
from manyheads.core.tables import wrapped
from manyheads.core.text import quoted
from manyheads.worksheets.arithmetic import NEGATIVE_INFINITY, ZERO, Number, float_of, is_exact
from manyheads.worksheets.display import decimal_text, fraction_text, full_text
from manyheads.worksheets.exact import Steps, scale_of, solve_exact
from manyheads.worksheets.fields import GIVEN, Kind, Recipe
from manyheads.worksheets.files import document_from_text
from manyheads.worksheets.numbers import exact_text, parse_number
from manyheads.worksheets.places import first_number, found, parsed, written
from manyheads.worksheets.quantities import Quantity, label_of, quantity_from_text, value_at
from manyheads.worksheets.sheet import Sheet


@dataclass(frozen=True, kw_only=True)
class Step:
    """One number and how it is made."""

    quantity: str
    """Its name, counted from 0."""
    label: str
    """What it is, counted from 1."""
    value: Number
    """Fraction or sympy expression where exact, a Decimal of 50 digits where not."""
    kind: Kind
    """Which rule makes it; see `rules.Recipe`."""
    rule: str
    """The rule in words and symbols."""
    formula: str
    """The rule with the actual numbers in it, rounded to read."""
    terms: tuple[tuple[str, ...], ...]
    """The names of the factors of each term that is not zero."""
    zero_terms: int = 0
    """How many terms were left out because they are exactly zero."""

    @property
    def given(self) -> bool:
        """Whether the number is given in the worksheet file."""
        return self.kind == "given"

    @property
    def uses(self) -> tuple[str, ...]:
        """The names of the numbers it is made of."""
        return Recipe(kind=self.kind, terms=self.terms).uses

    @property
    def full_value(self) -> str:
        """The value in full, as text."""
        return full_text(self.value)

    def document(self) -> dict[str, Any]:
        """The step as a JSON object."""
        value = float_of(self.value)
        is_finite = abs(value) != float("inf")
        is_text = is_exact(self.value) and not isinstance(self.value, Decimal)
        return {
            "quantity": self.quantity,
            "label": self.label,
            "value": value if is_finite else None,
            "exact": exact_text(self.value) if is_text else None,
            "kind": self.kind,
            "rule": self.rule,
            "formula": self.formula,
            "terms": [list(term) for term in self.terms],
            "uses": list(self.uses),
            "zero_terms": self.zero_terms,
            "given": self.given,
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class Explanation:
    """An ordered list of steps that starts with the requested number; each number occurs once."""

    worksheet: str
    """The worksheet's name."""
    quantity: str
    """The requested number."""
    steps: tuple[Step, ...]
    """The requested number first, then the numbers that it uses, level by level."""
    cut: tuple[str, ...] = ()
    """Names that are used but not explained because of `depth`."""

    def to_json(self) -> str:
        """One JSON document with every step."""
        document = {
            "worksheet": self.worksheet,
            "quantity": self.quantity,
            "steps": [step.document() for step in self.steps],
            "cut": list(self.cut),
        }
        return json.dumps(document, allow_nan=False)

    def __str__(self) -> str:
        """The steps in 80 columns, the given numbers last."""
        return "\n".join(_lines(self.steps, self.cut))

    __repr__ = __str__


class Explainer:
    """Explains numbers of one worksheet and solves each sequence once."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.solved: dict[str, Steps] = {}
        self.values: dict[str, Number] = {}

    @cached_property
    def _document(self) -> Mapping[str, Any]:
        return document_from_text(self.sheet.text)

    def _quantity(self, name: str) -> Quantity | str:
        return quantity_from_text(self.sheet, name)

    def explain(self, quantity: str, depth: int | None = None) -> Explanation:
        """Explain how one number is computed from the given ones.

        Args:
            quantity: its name, such as `river.output[9][0]`.
            depth: number of levels: 1 is the number itself; None gives all.

        Raises:
            WorksheetError: the number does not exist, or depth is below 1.
        """
        if depth is not None and depth < 1:
            raise WorksheetError(f"depth ({depth}) must be at least 1: use 1 or more")
        first = self.step(quantity)
        steps, layer, count = {first.quantity: first}, [first], 1
        used = _new_names(layer, steps)
        while used and (depth is None or count < depth):
            layer = [self.step(name) for name in used]
            steps |= {step.quantity: step for step in layer}
            used, count = _new_names(layer, steps), count + 1
        return Explanation(
            worksheet=self.sheet.name,
            quantity=first.quantity,
            steps=tuple(steps.values()),
            cut=tuple(used),
        )

    def value(self, name: str) -> Number:
        """Find a number by name; exact if its exact form is known."""
        if name not in self.values:
            self.values[name] = self._value(self._quantity(name))
        return self.values[name]

    def _value(self, quantity: Quantity | str) -> Number:
        if isinstance(quantity, str):
            return self._given(quantity)
        if quantity.sequence not in self.solved:
            self.solved[quantity.sequence] = solve_exact(self.sheet, quantity.sequence)
        return value_at(self.solved[quantity.sequence], quantity.field.name, quantity.index)

    def _given(self, place: str) -> Number:
        if place == "scale":
            return scale_of(self.sheet)
        keys = parsed(place)
        value = found(self._document, keys)
        if isinstance(value, (dict, list)):
            hint = written(first_number(value, keys) or keys)
            raise WorksheetError(f"quantity ({quoted(place)}) is not a single number: use {hint}")
        return parse_number(value, place)

    def step(self, name: str) -> Step:
        """Explain one number, without the numbers that it is made of."""
        quantity = self._quantity(name)
        if isinstance(quantity, str):
            return self._given_step(quantity)
        recipe, zeros = self._without_zeros(
            quantity.field.recipe(self.sheet, quantity.sequence, quantity.index)
        )
        value = self.value(name)
        return Step(
            quantity=quantity.name,
            label=label_of(self.sheet, quantity),
            value=value,
            kind=recipe.kind,
            rule=quantity.field.rule,
            formula=self._formula(value, recipe),
            terms=recipe.terms,
            zero_terms=zeros,
        )

    def _given_step(self, place: str) -> Step:
        value = self._given(place)
        is_root = place == "scale" and self.sheet.scale is None
        width = self.sheet.head_dim
        return Step(
            quantity=place,
            label=f"scale, one over the root of the head width {width}" if is_root else "given",
            value=value,
            kind="root" if is_root else "given",
            rule="scale = 1/sqrt(head width)" if is_root else "as given in the worksheet",
            formula=f"{self._text(value)} = 1/sqrt({width})" if is_root else self._text(value),
            terms=GIVEN.terms,
        )

    def _without_zeros(self, recipe: Recipe) -> tuple[Recipe, int]:
        """Leave out terms that are exactly zero, unless all of them are."""
        if recipe.kind != "sum":
            return recipe, 0
        kept = tuple(t for t in recipe.terms if all(self.value(name) != ZERO for name in t))
        if not kept or len(kept) == len(recipe.terms):
            return recipe, 0
        return Recipe(kind="sum", terms=kept), len(recipe.terms) - len(kept)

    def _formula(self, value: Number, recipe: Recipe) -> str:
        used = [self.value(name) for name in recipe.uses]
        texts = [self._text(number) for number in used]
        if recipe.kind == "sum" and len(recipe.uses) == 1 == len(recipe.terms):
            return f"{self._text(value)} = {texts[0]}, the same number"
        if recipe.kind == "sum":
            return f"{self._text(value)} = {self._sum_text(recipe)}"
        if recipe.kind == "softmax":
            powers = [f"e^{_bracketed(text)}" for text in texts]
            right = f"{powers[0]} / ({' + '.join(powers)})"
        else:
            right = {
                "blocked": "blocked: the source comes after the receiver",
                "power": f"e^{_bracketed(texts[0])}" if texts else "",
                "ratio": " / ".join(_bracketed(text) for text in texts),
                "rectified": f"max(0, {texts[0]})" if texts else "",
            }[recipe.kind]
        return f"{self._text(value)} = {right}"

    @cached_property
    def _has_decimals(self) -> bool:
        """Whether the worksheet is written in decimals such as 0.25, and so is read in them."""
        return re.search(r"[0-9]\.[0-9]", self.sheet.text) is not None

    def _text(self, number: Number) -> str:
        if number is NEGATIVE_INFINITY:
            return "-infinity"
        return decimal_text(number) if self._has_decimals else fraction_text(number)

    def _sum_text(self, recipe: Recipe) -> str:
        text = ""
        for term in recipe.terms:
            first, *others = [self._text(self.value(name)) for name in term]
            product = " x ".join([first, *(_bracketed(other) for other in others)])
            if " " in first and others:
                product = f"({first})" + product[len(first) :]
            if not text:
                text = product
            else:
                text += f" - {product[1:]}" if product[0] == "-" else f" + {product}"
        return text


def _bracketed(text: str) -> str:
    return f"({text})" if text[0] == "-" or " " in text or "/" in text or "*" in text else text


def explained(sheet: Sheet, quantity: str, depth: int | None = None) -> Explanation:
    """Explain one number of a worksheet; see `Explainer.explain`.

    Raises:
        WorksheetError: the number does not exist, or depth is below 1.
    """
    return Explainer(sheet).explain(quantity, depth)


def _new_names(layer: list[Step], known: Mapping[str, Step]) -> list[str]:
    names = dict.fromkeys(name for step in layer for name in step.uses)
    return [name for name in names if name not in known]


def _lines(steps: Sequence[Step], cut: Sequence[str]) -> Iterable[str]:
    for step in steps:
        if not step.given:
            yield from _paragraph(step)
    given = [step for step in steps if step.given]
    if given:
        yield "Given in the worksheet"
        width = max(len(step.quantity) for step in given)
        yield from (f"  {step.quantity:<{width}}  = {step.full_value}" for step in given)
    if cut:
        yield f"Not explained: {len(cut)} more numbers; use a larger depth."


def _paragraph(step: Step) -> Iterable[str]:
    left_out = {0: "", 1: "   (1 zero term left out)"}
    note = left_out.get(step.zero_terms, f"   ({step.zero_terms} zero terms left out)")
    formula = step.formula
    for sign in (" x ", " / (", "e^("):
        formula = formula.replace(sign, sign.replace(" ", "\N{NO-BREAK SPACE}"))
    yield f"{step.quantity} = {step.full_value}"
    yield from wrapped(f"{step.label}: {step.rule}", "  ")
    yield from wrapped(formula + note.replace(" ", "\N{NO-BREAK SPACE}"), "    ")
    yield ""
