"""Solution: every number of one solved sentence by name, as arrays, JSON, text and HTML."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from manyheads.core.errors import WorksheetError
from manyheads.core.text import quoted
from manyheads.worksheets.arithmetic import NEGATIVE_INFINITY, float_of
from manyheads.worksheets.exact import Steps, solve_exact
from manyheads.worksheets.fields import ALL_FIELDS, Field, fields_of
from manyheads.worksheets.numbers import exact_text
from manyheads.worksheets.places import listed
from manyheads.worksheets.sheet import Sheet
from manyheads.worksheets.solution_text import html_from_solution, text_from_solution

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Solution:
    """Every number of one sentence of a worksheet, by the names of a trace, without a batch axis.

    `solution["scores"]` and `solution.scores` are the same array: float64, or where the solution is
    exact, objects (Fraction or sympy expression where exact, float where not). Axes are those of
    `manyheads.worksheets.fields`; a solution of one receiver lacks the receiver's axis.
    """

    sheet: Sheet
    """What was given."""
    sequence: str
    """Which sentence."""
    exact: bool
    """Whether fractions and symbols were kept."""
    numbers: Mapping[str, Array]
    """The arrays as solved; where not exact, an exact solution has Decimals of 50 digits."""
    receiver: int | None = None
    """The one receiver kept, counted from 1, or None for all."""

    @property
    def worksheet(self) -> str:
        """The worksheet's name."""
        return self.sheet.name

    @property
    def title(self) -> str:
        """The worksheet's title."""
        return self.sheet.title

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the sentence."""
        return self.sheet.sequence(self.sequence).tokens

    @property
    def is_causal(self) -> bool:
        """Whether later sources are hidden."""
        return self.sheet.is_causal

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the arrays, in the order of the sum."""
        return tuple(field.name for field in fields_of(self.sheet))

    def __getitem__(self, name: str) -> Array:
        """One array by name.

        Raises:
            WorksheetError: this worksheet has no such field.
        """
        if name not in self.numbers:
            raise WorksheetError(
                f"field ({quoted(name)}) is not in it: use {listed(self.fields, 30)}"
            )
        array = self.numbers[name]
        return _mapped(array, _public) if self.exact else array.copy()

    def __getattr__(self, name: str) -> Array:
        """One array by name."""
        if name.startswith("_") or name not in {field.name for field in ALL_FIELDS}:
            raise AttributeError(f"Solution has no attribute {name!r}")
        try:
            return self[name]
        except WorksheetError as error:
            raise AttributeError(str(error)) from error

    def at(self, receiver: int) -> "Solution":
        """Keep the numbers of one receiver, counted from 1; keys and values stay of all sources.

        Raises:
            WorksheetError: no such receiver, or only one is left already.
        """
        count = len(self.tokens)
        if type(receiver) is not int or not 1 <= receiver <= count:
            raise WorksheetError(f"receiver ({quoted(receiver)}) must be 1 to {count}: use {count}")
        if self.receiver is not None:
            raise WorksheetError(f"receiver ({self.receiver}) is kept already: solve again")
        kept = {field.name: self._kept(field, receiver - 1) for field in fields_of(self.sheet)}
        return replace(self, numbers=kept, receiver=receiver)

    def _kept(self, field: Field, index: int) -> Array:
        array = self.numbers[field.name]
        return array.take(index, field.axes.index("T")) if "T" in field.axes else array

    def to_json(self) -> str:
        """One JSON document: exact numbers as text, others as numbers; minus infinity is null.

        `exp_scores` and `exp_sum` are null as well where they exceed the largest float64.
        """
        document: dict[str, Any] = {
            "worksheet": self.worksheet,
            "title": self.title,
            "sequence": self.sequence,
            "tokens": list(self.tokens),
            "exact": self.exact,
            "receiver": self.receiver,
            "is_causal": self.is_causal,
        }
        numbers = {name: _mapped(self.numbers[name], _json).tolist() for name in self.fields}
        return json.dumps(document | numbers, allow_nan=False)

    def __str__(self) -> str:
        """Tables in 80 columns."""
        return text_from_solution(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same tables for Jupyter."""
        return html_from_solution(self)


def solved(sheet: Sheet, sequence: str | None = None, exact: bool = False) -> Solution:
    """Solve one sentence: by fractions and symbols, or in float64 by the packed form.

    Raises:
        WorksheetError: no sentence of that name.
    """
    name = sheet.sequence(sequence).name
    numbers: Mapping[str, Array]
    if exact:
        numbers = _arrays(solve_exact(sheet, name))
    else:
        from manyheads.worksheets.tensors import solve_float  # loads torch

        numbers = solve_float(sheet, name)
    return Solution(sheet=sheet, sequence=name, exact=exact, numbers=numbers)


def _arrays(steps: Steps) -> dict[str, Array]:
    return {name: _array(table) for name, table in steps.items()}


def _array(table: Any) -> Array:  # noqa: ANN401 - nested tuples of numbers
    shape, flat = [], [table]
    while isinstance(flat[0], tuple):
        shape.append(len(flat[0]))
        flat = [entry for row in flat for entry in row]
    array = np.empty(len(flat), dtype=object)
    array[:] = flat
    return array.reshape(shape)


def _mapped(array: Array, function: Any) -> Array:  # noqa: ANN401 - any function of a number
    result = np.empty(array.shape, dtype=object)
    for index in np.ndindex(array.shape):
        result[index] = function(array[index])
    return result


def _public(number: Any) -> Any:  # noqa: ANN401 - Fraction, sympy expression or float
    return float_of(number) if isinstance(number, Decimal) else number


def _json(number: Any) -> str | float | None:  # noqa: ANN401 - any number
    if isinstance(number, (float, Decimal)):
        value = float(number)
        return value if np.isfinite(value) and number != NEGATIVE_INFINITY else None
    return exact_text(number) if not isinstance(number, int) else exact_text(Fraction(number))
