"""Solution: every number of one solved sequence by name, as arrays, JSON, text and HTML."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from manyheads.core.errors import WorksheetError
from manyheads.core.tables import Table, html_from_tables, shortened, text_from_table, wrapped
from manyheads.core.text import quoted
from manyheads.worksheets.arithmetic import NEGATIVE_INFINITY, float_of
from manyheads.worksheets.display import LONGEST, fraction_text
from manyheads.worksheets.exact import Steps, solve_exact
from manyheads.worksheets.fields import ALL_FIELDS, Field, fields_of
from manyheads.worksheets.numbers import exact_text
from manyheads.worksheets.places import listed
from manyheads.worksheets.sheet import Sheet
from manyheads.worksheets.sheet_text import feature_columns, head_title, output_columns

Array = npt.NDArray[Any]
_TOP_WORDS = 5
_LONGEST = 10
_KINDS = (
    "Solved in float64, rounded for display.",
    "Solved exactly; numbers without a short exact form are rounded for display.",
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Solution:
    """Every number of one sequence of a worksheet, by the names of a trace, without a batch axis.

    `solution["scores"]` and `solution.scores` are the same array: float64, or where the solution is
    exact, objects (Fraction or sympy expression where exact, float where not). Axes are those of
    `manyheads.worksheets.fields`; a solution of one receiver lacks the receiver's axis.
    """

    sheet: Sheet
    """The worksheet."""
    sequence: str
    """Name of the sequence."""
    exact: bool
    """Whether fractions and symbols are kept."""
    numbers: Mapping[str, Array]
    """The arrays as solved; where not exact, an exact solution has Decimals of 50 digits."""
    receiver: int | None = None
    """The selected receiver, counted from 1, or None for all."""

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
        """The tokens of the sequence."""
        return self.sheet.sequence(self.sequence).tokens

    @property
    def is_causal(self) -> bool:
        """Whether the causal mask blocks later sources."""
        return self.sheet.is_causal

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the arrays, in the order of the calculation."""
        return tuple(field.name for field in fields_of(self.sheet))

    def __getitem__(self, name: str) -> Array:
        """One array by name.

        Raises:
            WorksheetError: this worksheet has no such field.
        """
        if name not in self.numbers:
            raise WorksheetError(
                f"field ({quoted(name)}) is not in this solution: use {listed(self.fields, 30)}"
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
        """Keep the numbers of one receiver, counted from 1, and the keys and values of all sources.

        Raises:
            WorksheetError: the receiver does not exist, or one is already selected.
        """
        count = len(self.tokens)
        if type(receiver) is not int or not 1 <= receiver <= count:
            raise WorksheetError(f"receiver ({quoted(receiver)}) must be 1 to {count}: use {count}")
        if self.receiver is not None:
            raise WorksheetError(
                f"receiver ({self.receiver}) is already selected: solve again for another"
            )
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
        return _text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same tables for Jupyter."""
        return _html(self)


def solved(sheet: Sheet, sequence: str | None = None, exact: bool = False) -> Solution:
    """Solve one sequence: by fractions and symbols, or in float64 by the packed form.

    Raises:
        WorksheetError: no sequence has that name.
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


def _text(solved: Solution) -> str:
    """Write a solution as tables in 80 columns."""
    heading = f"{solved.sheet.name}: {solved.sheet.title}"
    parts = ["\n".join([heading, "=" * min(len(heading), 80), *_lines(solved)])]
    return "\n\n".join([*parts, *(text_from_table(table) for table in _tables(solved))])


def _html(solved: Solution) -> str:
    """Write the same tables as HTML."""
    return html_from_tables(solved.sheet.title, _lines(solved), _tables(solved))


def _lines(solved: Solution) -> list[str]:
    sheet, sequence = solved.sheet, solved.sheet.sequence(solved.sequence)
    seen = (
        "each receiver sees itself and earlier sources"
        if sheet.is_causal
        else "every receiver sees every source"
    )
    kind = _KINDS[solved.exact]
    lines = [f"Sequence {sequence.name}: {' '.join(sequence.tokens)}"]
    if solved.receiver is not None:
        lines.append(f"Receiver {solved.receiver}: {sequence.tokens[solved.receiver - 1]}")
    lines.append(f"{sheet.num_heads} heads; {seen}.")
    return [*chain.from_iterable(map(wrapped, lines)), kind]


def _tables(solved: Solution) -> Iterable[Table]:
    return _receiver_tables(solved) if solved.receiver else _full_tables(solved)


def _cells(numbers: Iterable[Any], longest: int = LONGEST) -> tuple[str, ...]:
    return tuple(fraction_text(number, longest) for number in numbers)


def _token_names(solved: Solution) -> list[tuple[str, str]]:
    """The position, from 1, and the shortened text of each token."""
    tokens = solved.sheet.sequence(solved.sequence).tokens
    return [(str(i + 1), shortened(token, 12)) for i, token in enumerate(tokens)]


def _numbered(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{i + 1}" for i in range(count))


def _full_tables(solved: Solution) -> Iterable[Table]:
    sheet, numbers = solved.sheet, solved.numbers
    features, outputs = feature_columns(sheet), output_columns(sheet)
    yield _by_token(solved, "Input x", features, numbers["x"])
    for h in range(sheet.num_heads):
        yield from _head_tables(solved, h)
    joined = _joined_columns(sheet)
    yield _by_token(solved, "Concatenated heads (concat)", joined, numbers["concat"])
    for h, contribution in enumerate(numbers["head_contributions"]):
        title = f"{head_title(sheet, h)}: contribution to the output"
        yield _by_token(solved, title, outputs, contribution)
    end = "concat W_O" if sheet.b_o is None else "concat W_O + b_O"
    yield _by_token(solved, f"Output = {end}", outputs, numbers["output"])
    if "updated" in numbers:
        yield _by_token(solved, "Updated row = x + output", features, numbers["updated"])
    if "probabilities" in numbers:
        yield _words_by_receiver(solved)


def _joined_columns(sheet: Sheet) -> tuple[str, ...]:
    heads, width = range(sheet.num_heads), range(sheet.v_head_dim)
    return tuple(f"h{h + 1}.{i + 1}" for h in heads for i in width)


def _head_tables(solved: Solution, h: int) -> Iterable[Table]:
    sheet, numbers, title = solved.sheet, solved.numbers, head_title(solved.sheet, h)
    d, width, names = sheet.head_dim, sheet.v_head_dim, _token_names(solved)
    rows = zip(names, numbers["q"][h], numbers["k"][h], numbers["v"][h], strict=True)
    yield Table(
        title=f"{title}: query q, key k and value v of each token",
        columns=("", "token", *_numbered("q", d), *_numbered("k", d), *_numbered("v", width)),
        rows=tuple((*name, *_cells((*q, *k, *v))) for name, q, k, v in rows),
        names=2,
    )
    sources = tuple(n if n == token else f"{n} {shortened(token, 7)}" for n, token in names)
    for field, text in (
        ("masked_scores", "scores, -inf where blocked"),
        ("attn_weights", "weights"),
    ):
        shown = f"{title}: {text} (receivers down, sources across)"
        yield _by_token(solved, shown, sources, numbers[field][h])
    columns = _numbered("v", width)
    yield _by_token(solved, f"{title}: head output", columns, numbers["head_outputs"][h])


def _by_token(solved: Solution, title: str, columns: tuple[str, ...], numbers: Array) -> Table:
    rows = zip(_token_names(solved), numbers, strict=True)
    return Table(
        title=title,
        columns=("", "token", *columns),
        rows=tuple((*name, *_cells(row, _LONGEST)) for name, row in rows),
        names=2,
    )


def _ranked(probabilities: Array) -> list[int]:
    return sorted(range(len(probabilities)), key=lambda w: (-_float(probabilities[w]), w))


def _float(number: Any) -> float:  # noqa: ANN401 - a float or an exact number
    """A float of any number in a solution."""
    return float(number) if isinstance(number, float) else float_of(number)


def _words_by_receiver(solved: Solution) -> Table:
    rows = []
    for name, row in zip(_token_names(solved), solved.numbers["probabilities"], strict=True):
        best = [f"{solved.sheet.vocabulary[w]} {_float(row[w]):.3f}" for w in _ranked(row)[:3]]
        rows.append((*name, *best, *[""] * (3 - len(best))))
    return Table(
        title="Next word: the three most probable",
        columns=("", "after", "first", "second", "third"),
        rows=tuple(rows),
        names=2,
    )


def _receiver_tables(solved: Solution) -> Iterable[Table]:
    sheet, numbers = solved.sheet, solved.numbers
    for h in range(sheet.num_heads):
        yield _sources_table(solved, h)
    yield _output_table(solved)
    if "hidden" in numbers:
        pairs = zip(numbers["hidden_pre"], numbers["hidden"], strict=True)
        yield Table(
            title="Hidden units: the sum, and 0 where it is negative",
            columns=("unit", "sum", "hidden"),
            rows=tuple((str(j + 1), *_cells(pair)) for j, pair in enumerate(pairs)),
        )
        yield _words_table(solved)


def _sources_table(solved: Solution, h: int) -> Table:
    sheet, numbers = solved.sheet, solved.numbers
    names = _token_names(solved)
    columns = [numbers[name][h] for name in ("dots", "masked_scores", "exp_scores", "attn_weights")]
    rows = [
        (*names[s], *_cells(column[s] for column in columns), *_cells(numbers["v"][h][s]))
        for s in range(len(names))
    ]
    total = ("", "sum", "", "", fraction_text(numbers["exp_sum"][h]), "1")
    query = ", ".join(_cells(numbers["q"][h]))
    return Table(
        title=f"{head_title(sheet, h)}: q = ({query}); last line: sum of weight times v",
        columns=(
            "",
            "source",
            "q.k",
            "score",
            "e^score",
            "weight",
            *_numbered("v", sheet.v_head_dim),
        ),
        rows=(*rows, (*total, *_cells(numbers["head_outputs"][h]))),
        names=2,
        has_total=True,
    )


def _output_table(solved: Solution) -> Table:
    sheet, numbers = solved.sheet, solved.numbers
    named = {f"head {h + 1}": row for h, row in enumerate(numbers["head_contributions"])}
    if sheet.b_o is not None:
        named["b_O"] = np.array(sheet.b_o, dtype=object)
    named["output"] = numbers["output"]
    if "updated" in numbers:
        named |= {"x": numbers["x"], "updated": numbers["updated"]}
    rows = zip(output_columns(sheet), *named.values(), strict=True)
    return Table(
        title="Output: the heads' contributions, added up",
        columns=("feature" if sheet.has_residual else "", *named),
        rows=tuple((name, *_cells(row)) for name, *row in rows),
    )


def _words_table(solved: Solution) -> Table:
    sheet, numbers = solved.sheet, solved.numbers
    chosen = _ranked(numbers["probabilities"])[:_TOP_WORDS]
    target = sheet.sequence(solved.sequence).target
    return Table(
        title=f"Next word: the most probable of {len(sheet.vocabulary)}"
        + (f" (wanted: {target})" if target else ""),
        columns=("", "word", "logit", "probability"),
        rows=tuple(
            (
                str(rank + 1),
                shortened(sheet.vocabulary[w], 20),
                *_cells((numbers["logits"][w], numbers["probabilities"][w])),
            )
            for rank, w in enumerate(chosen)
        ),
        names=2,
    )
