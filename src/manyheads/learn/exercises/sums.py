"""Short exact sums for the ways to go wrong; the right answers come from the worksheet engine."""

from collections.abc import Iterable, Sequence
from fractions import Fraction

from manyheads.learn.exercises.form import Numbers
from manyheads.worksheets.arithmetic import ZERO, Number, add, dot, float_of, multiply, reciprocal
from manyheads.worksheets.sheet import Matrix


def total(numbers: Iterable[Number]) -> Number:
    """Add numbers up, from the first to the last."""
    result: Number = ZERO
    for number in numbers:
        result = add(result, number)
    return result


def mixed(weights: Sequence[Number], rows: Sequence[Sequence[Number]]) -> Numbers:
    """A row of weights times a matrix: the weighted sum of its rows."""
    return tuple(dot(weights, column) for column in zip(*rows, strict=True))


def times(numbers: Sequence[Number], factor: Number) -> Numbers:
    """Each number times a factor."""
    return tuple(multiply(number, factor) for number in numbers)


def plus(left: Sequence[Number], right: Sequence[Number]) -> Numbers:
    """Two rows, added number by number."""
    return tuple(add(a, b) for a, b in zip(left, right, strict=True))


def shares(numbers: Sequence[Number]) -> Numbers:
    """Each number divided by their sum, which is not zero."""
    return times(numbers, reciprocal(total(numbers)))


def mean(rows: Sequence[Sequence[Number]]) -> Numbers:
    """The plain mean of rows."""
    part = Fraction(1, len(rows))
    return mixed([part] * len(rows), rows)


def sizes(numbers: Sequence[Number]) -> Numbers:
    """Numbers without their signs."""
    return tuple(multiply(n, Fraction(-1)) if float_of(n) < 0 else n for n in numbers)


def picked(row: Sequence[Number], places: Sequence[int]) -> Numbers:
    """Some numbers of a row, by places counted from 0."""
    return tuple(row[place] for place in places)


def transposed(matrix: Matrix) -> Matrix:
    """Rows become columns."""
    return tuple(zip(*matrix, strict=True))
