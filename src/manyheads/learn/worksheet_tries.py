"""Experiments on a worksheet: one change, and one number to predict before it is computed.

They are made from the given numbers, so every worksheet file has them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from manyheads.core.errors import LearnError, WorksheetError
from manyheads.core.text import quoted
from manyheads.learn.sentences import value_text
from manyheads.worksheets.arithmetic import ONE, Number, add, decimal_of, negative
from manyheads.worksheets.exact import Steps, solve_exact
from manyheads.worksheets.interventions import one_wide_head, without_head, zero_query
from manyheads.worksheets.library import Worksheet
from manyheads.worksheets.numbers import Literal, exact_text
from manyheads.worksheets.quantities import Quantity, label_of, quantity_from_text, value_at


@dataclass(frozen=True, kw_only=True)
class Try:
    """One experiment."""

    name: str
    """Short name, as in commands."""
    change: str
    """The change, in one sentence."""
    quantity: Quantity
    """The number that is predicted, in the worksheet as given."""
    label: str
    """Description of that number, counted from 1."""
    before: Number
    """Its value in the worksheet as given."""
    changed: Worksheet
    """The worksheet after the change."""
    explain: Callable[[Number], str]
    """Explains the number after the change."""

    @cached_property
    def after(self) -> Number:
        """The number after the change, computed on first use."""
        steps = solve_exact(self.changed, self.quantity.sequence)
        return value_at(steps, self.quantity.field.name, self.quantity.index)

    @property
    def question(self) -> str:
        """The question, with the number before the change."""
        return f"{self.change} The {self.label} is {value_text(self.before)}. What does it become?"


@dataclass(frozen=True, kw_only=True)
class _Given:
    """The worksheet as given, solved once."""

    sheet: Worksheet
    sequence: str
    steps: Steps

    @property
    def last(self) -> int:
        return len(self.steps["x"]) - 1

    @property
    def strongest(self) -> int:
        """The source to which head 1 gives the last receiver's largest weight."""
        row = self.steps["attn_weights"][0][self.last]
        return max(range(len(row)), key=lambda s: decimal_of(row[s]))

    def made(
        self,
        name: str,
        change: str,
        place: tuple[str, *tuple[int, ...]],
        changed: Worksheet,
        explain: Callable[[Number], str],
    ) -> Try:
        field, *index = place
        text = f"{self.sequence}.{field}" + "".join(f"[{i}]" for i in index)
        quantity = quantity_from_text(self.sheet, text)
        assert isinstance(quantity, Quantity)
        return Try(
            name=name,
            change=change,
            quantity=quantity,
            label=label_of(self.sheet, quantity),
            before=value_at(self.steps, field, quantity.index),
            changed=changed,
            explain=explain,
        )


def tries_of(sheet: Worksheet, sequence: str | None = None) -> tuple[Try, ...]:
    """Every experiment that a worksheet allows.

    Args:
        sheet: the worksheet.
        sequence: the sequence of the number; None for the first.

    Raises:
        WorksheetError: no sequence has that name.
    """
    name = sheet.sequence(sequence).name
    given = _Given(sheet=sheet, sequence=name, steps=solve_exact(sheet, name))
    silenced = [_without_head(given, h) for h in range(sheet.num_heads)]
    found = [_zero_query(given), *silenced, *_one_wide_head(given), *_without_mask(given)]
    return (*found, _edited_number(given))


def try_named(sheet: Worksheet, name: str, sequence: str | None = None) -> Try:
    """One experiment by name.

    Raises:
        LearnError: the worksheet does not have this experiment.
        WorksheetError: no sequence has that name.
    """
    found = tries_of(sheet, sequence)
    for one in found:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in found)
    raise LearnError(
        f"try ({quoted(Literal(name))}) is not an experiment of {sheet.name}: use {names}"
    )


def _zero_query(given: _Given) -> Try:
    count = given.last + 1
    where = f"position {count}"
    return given.made(
        "zero-query",
        "Every query of every head becomes zero.",
        ("attn_weights", 0, given.last, given.strongest),
        zero_query(given.sheet),
        lambda after: (
            f"A query of zero gives every key the same score, so softmax gives each of the {count} "
            f"sources that {where} sees the same weight: {value_text(after)}."
        ),
    )


def _without_head(given: _Given, h: int) -> Try:
    parts = given.steps["head_contributions"][h][given.last]
    j = max(range(len(parts)), key=lambda i: abs(decimal_of(parts[i])))
    return given.made(
        f"without-head-{h + 1}",
        f"The values of head {h + 1} become zero.",
        ("output", given.last, j),
        without_head(given.sheet, h),
        lambda after: (
            f"Head {h + 1} contributed {value_text(parts[j])} here. The output is a sum over "
            f"heads, so only that contribution is missing. The sum of the others is "
            f"{value_text(after)}."
        ),
    )


def _one_wide_head(given: _Given) -> list[Try]:
    if given.sheet.num_heads == 1:
        return []
    try:
        wide = one_wide_head(given.sheet)
    except WorksheetError:  # wider than a worksheet may be
        return []
    weights = [head[given.last][given.strongest] for head in given.steps["attn_weights"]]
    each = ", ".join(f"{value_text(w)} in head {h}" for h, w in enumerate(weights, start=1))
    made = given.made(
        "one-wide-head",
        "All heads are merged into one head of their total width, with the same columns.",
        ("attn_weights", 0, given.last, given.strongest),
        wide,
        lambda after: (
            "One wide head sums the products of all heads, with one scale, before its softmax. "
            f"Instead of {each}, the source has one weight for all values: {value_text(after)}."
        ),
    )
    return [made]


def _without_mask(given: _Given) -> list[Try]:
    if not given.sheet.is_causal or given.last == 0:
        return []
    changed = given.sheet.edit({"is_causal": False})
    now, before = solve_exact(changed, given.sequence)["output"], given.steps["output"]
    moves = [abs(decimal_of(add(a, negative(b)))) for a, b in zip(now[0], before[0], strict=True)]
    watched = ("output", 0, moves.index(max(moves)))
    first = given.made(
        "no-mask-first",
        "The causal mask is removed.",
        watched,
        changed,
        lambda after: (
            "With the mask, position 1 sees only itself. Without it, position 1 mixes the values "
            f"of all {given.last + 1} sources, which gives {value_text(after)}."
        ),
    )
    last = given.made(
        "no-mask-last",
        "The causal mask is removed.",
        ("output", given.last, 0),
        changed,
        lambda after: (
            f"No source comes after the last position, so the mask blocks nothing there. The "
            f"number stays {value_text(after)}."
        ),
    )
    return [first, last]


def _edited_number(given: _Given) -> Try:
    old = given.sheet.w_o[0][0]
    new, factor = add(old, ONE), given.steps["concat"][given.last][0]
    return given.made(
        "edit-w-o",
        f"The first number of W_O grows from {value_text(old)} to {value_text(new)}.",
        ("output", given.last, 0),
        given.sheet.edit({"W_O[0][0]": exact_text(new)}),
        lambda after: (
            f"This number of W_O is multiplied by the first number of the concatenated row, "
            f"{value_text(factor)}. Adding 1 to it adds {value_text(factor)} to the output, which "
            f"becomes {value_text(after)}."
        ),
    )
