"""Random numbers, small worksheets and short exact sums for the kinds of exercises."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from manyheads.core.pcg32 import PCG32
from manyheads.worksheets.arithmetic import ZERO, Number, add, dot, float_of, multiply, reciprocal
from manyheads.worksheets.exact import Steps, solve_exact
from manyheads.worksheets.library import Worksheet
from manyheads.worksheets.sheet import Matrix, Row

T = TypeVar("T")
Texts = list[list[str]]
SMALL = (0, 0, 1, -1, 2)
"""Entries of projections: many zeros, so that a sum is short."""


class Draws:
    """Random whole numbers; every method says how many numbers it takes from the generator.

    Args:
        seed: of the exercise.
        stream: of the kind.
    """

    def __init__(self, seed: int, stream: int) -> None:
        self._chance = PCG32(seed, stream)

    def below(self, count: int) -> int:
        """One draw: `next_u32` modulo `count`."""
        return self._chance.next_u32() % count

    def between(self, low: int, high: int) -> int:
        """One draw: a whole number from low to high, both included."""
        return low + self.below(high - low + 1)

    def choose(self, options: Sequence[T]) -> T:
        """One draw: one of the options."""
        return options[self.below(len(options))]

    def row(self, count: int, options: Sequence[int]) -> tuple[int, ...]:
        """`count` draws: one option each."""
        return tuple(self.choose(options) for _ in range(count))

    def matrix(
        self, rows: int, columns: int, options: Sequence[int]
    ) -> tuple[tuple[int, ...], ...]:
        """`rows * columns` draws, row by row."""
        return tuple(self.row(columns, options) for _ in range(rows))


@dataclass(frozen=True, kw_only=True)
class Solved:
    """A drawn worksheet and every number of it."""

    document: dict[str, Any]
    """The worksheet file."""
    sheet: Worksheet
    """The same, read."""
    steps: Steps
    """Its numbers by field, exact."""


def solved(document: dict[str, Any]) -> Solved:
    """Compute every number of a drawn worksheet."""
    sheet = Worksheet.from_document(document)
    return Solved(document=document, sheet=sheet, steps=solve_exact(sheet))


def texts(rows: tuple[tuple[int, ...], ...], factor: str = "") -> Texts:
    """Whole numbers as a worksheet file has them, each times a factor such as `*sqrt(2)`."""
    return [[f"{n}{factor}" if n else "0" for n in row] for row in rows]


def head(w_q: Texts, w_k: Texts, w_v: Texts) -> dict[str, Any]:
    """One head of a worksheet file."""
    return {"W_Q": w_q, "W_K": w_k, "W_V": w_v}


def document(
    name: str, x: Texts, heads: list[dict[str, Any]], w_o: Texts, is_causal: bool
) -> dict[str, Any]:
    """A worksheet file with one sequence; its tokens are the numbers of the positions."""
    return {
        "name": name,
        "title": f"Exercise: {name}",
        "features": [f"feature {i + 1}" for i in range(len(x[0]))],
        "sequences": {"main": {"tokens": [str(t + 1) for t in range(len(x))], "X": x}},
        "is_causal": is_causal,
        "residual": False,
        "heads": heads,
        "W_O": w_o,
    }


POSITIONS, FEATURES, KEY_FACTORS = 4, 6, (1, 2, 3, 4)
"""T and D of a mixing sheet, and the numbers whose logarithms are its key features."""


def mixing_sheet(draws: Draws, name: str, has_bias: bool) -> Solved:
    """Draw a causal worksheet of two or three heads whose attention weights are fractions.

    T = 4 positions, D = 6 features, concatenated value width 6. Feature 1 is the query's sign,
    features 2 and 3 are logarithms of small whole numbers, features 4 to 6 are values. The head
    width of queries and keys is 1, so that a score is plus or minus such a logarithm.
    """
    num_heads = draws.choose((2, 3))
    width = FEATURES // num_heads
    x = [_position(draws) for _ in range(POSITIONS)]
    heads = [_mixing_head(draws, width) for _ in range(num_heads)]
    w_o = draws.matrix(FEATURES, FEATURES, (0, 0, 0, 1, -1, 2))
    sheet = document(name, x, heads, texts(w_o), is_causal=True)
    if has_bias:
        sheet["b_O"] = [str(n) for n in draws.row(FEATURES, (1, -1, 2, -2, 3))]
    return solved(sheet)


def _position(draws: Draws) -> list[str]:
    sign = draws.choose((1, 1, -1))
    logs = draws.row(2, KEY_FACTORS)
    values = draws.row(3, (-2, -1, 0, 1, 2, 3, 4, 5, 6))
    return [str(sign), *(f"ln({n})" if n > 1 else "0" for n in logs), *map(str, values)]


def _mixing_head(draws: Draws, width: int) -> dict[str, Any]:
    feature, sign = draws.between(1, 2), draws.choose((1, -1))
    w_q = [["1"]] + [["0"]] * (FEATURES - 1)
    w_k = [[str(sign) if i == feature else "0"] for i in range(FEATURES)]
    values = draws.matrix(3, width, SMALL)
    return head(w_q, w_k, [["0"] * width] * 3 + texts(values))


def total(numbers: Iterable[Number]) -> Number:
    """Add numbers up, from the first to the last."""
    result: Number = ZERO
    for number in numbers:
        result = add(result, number)
    return result


def mixed(weights: Sequence[Number], rows: Sequence[Sequence[Number]]) -> Row:
    """A row of weights times a matrix: the weighted sum of its rows."""
    return tuple(dot(weights, column) for column in zip(*rows, strict=True))


def times(numbers: Sequence[Number], factor: Number) -> Row:
    """Each number times a factor."""
    return tuple(multiply(number, factor) for number in numbers)


def plus(left: Sequence[Number], right: Sequence[Number]) -> Row:
    """Two rows, added number by number."""
    return tuple(add(a, b) for a, b in zip(left, right, strict=True))


def shares(numbers: Sequence[Number]) -> Row:
    """Each number divided by their sum, which is not zero."""
    return times(numbers, reciprocal(total(numbers)))


def mean(rows: Sequence[Sequence[Number]]) -> Row:
    """The mean of rows."""
    return mixed([Fraction(1, len(rows))] * len(rows), rows)


def sizes(numbers: Sequence[Number]) -> Row:
    """Numbers without their signs."""
    return tuple(multiply(n, Fraction(-1)) if float_of(n) < 0 else n for n in numbers)


def picked(row: Sequence[Number], places: Sequence[int]) -> Row:
    """Some numbers of a row, by places counted from 0."""
    return tuple(row[place] for place in places)


def transposed(matrix: Matrix) -> Matrix:
    """Rows become columns."""
    return tuple(zip(*matrix, strict=True))
