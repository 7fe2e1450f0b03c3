"""What stands behind a printed number: assertions that say what was expected and by whom.

An assertion never raises and never answers with a bare bool: it returns the text of its failure,
which names the printed value and the expected one, or None.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import torch

from manyheads.core.compare import dot_budget
from manyheads.worksheets.arithmetic import Number, float_of, is_exact
from manyheads.worksheets.numbers import exact_text

Cell = int | float | tuple[int, ...]
"""One printed number, or one printed shape."""
Cells = tuple[Cell, ...]


def plain_text(cell: Cell) -> str:
    """Show a cell on its own: shapes as they are, counts with commas, other numbers rounded."""
    if isinstance(cell, tuple):
        return f"({', '.join(str(size) for size in cell)})"
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:.3f}"


def gap_text(gap: Cell) -> str:
    """Show how far two results are apart: 0, or two digits and a power of ten."""
    return "0" if gap == 0 else f"{gap:.1e}" if isinstance(gap, float) else plain_text(gap)


@dataclass(frozen=True, kw_only=True)
class Equals:
    """The printed numbers are these, exactly or up to the rounding of so many products."""

    source: str
    """Who says so: "fractions", "published", "by hand", "torch"."""
    numbers: tuple[Number | tuple[int, ...], ...]
    """One expected number, or shape, for each printed one."""
    length: int = 0
    """Length of the sums in double precision that may have rounded; 0 asks for equality."""

    relation = "equals"

    def _is_right(self, index: int, cell: Cell) -> bool:
        wanted = self.numbers[index]
        if isinstance(wanted, tuple) or isinstance(cell, tuple):
            return bool(wanted == cell)
        expected = self.expected[index]
        assert not isinstance(expected, tuple)
        allowed = dot_budget(self.length, torch.float64) * max(1.0, abs(expected))
        return abs(cell - expected) <= allowed  # False for NaN

    def failure(self, cells: Cells, columns: tuple[str, ...]) -> str | None:
        """What is wrong, number by number, or None.

        Args:
            cells: the printed numbers.
            columns: the heading of each, empty for none.
        """
        if len(cells) != len(self.numbers):
            return f"printed {len(cells)} numbers, expected {len(self.numbers)} ({self.source})"
        wrong = [
            f"{where}printed {_full(cell)}, expected {self._wanted(index)} ({self.source})"
            for index, (where, cell) in enumerate(zip(_places(columns, cells), cells, strict=True))
            if not self._is_right(index, cell)
        ]
        return "; ".join(wrong) or None

    def shown(self, index: int, cell: Cell) -> str:
        """Show a printed number that is right: its exact form, and measured decimals beside it."""
        wanted = self.numbers[index]
        if isinstance(cell, (int, tuple)) or isinstance(wanted, (int, float, tuple)):
            return plain_text(cell)
        if isinstance(wanted, Fraction) and wanted.denominator == 1:
            return exact_text(wanted)
        return f"{exact_text(wanted)} {cell:.3f}" if is_exact(wanted) else plain_text(cell)

    @property
    def expected(self) -> Cells:
        """The expected numbers as they go into JSON."""
        return tuple(n if isinstance(n, (int, float, tuple)) else float_of(n) for n in self.numbers)

    @property
    def exact(self) -> list[str] | None:
        """The expected numbers as exact text, where they are exact."""
        numbers = self.numbers
        if all(isinstance(n, (int, float, tuple)) for n in numbers):
            return None
        return [exact_text(n) if is_exact(n) else f"{float_of(n):.17g}" for n in numbers]

    def _wanted(self, index: int) -> str:
        expected = self.expected[index]
        text = _full(expected)
        return text if self.exact is None else f"{self.exact[index]} ({text})"


@dataclass(frozen=True, kw_only=True)
class AtMost:
    """The printed numbers are distances, none of them larger than a limit."""

    source: str
    """Why this limit: what would have to be wrong for a larger distance."""
    limit: float
    """Largest distance that passes."""

    relation = "at most"

    def failure(self, cells: Cells, columns: tuple[str, ...]) -> str | None:
        """What is too far, distance by distance, or None.

        Args:
            cells: the printed distances.
            columns: the heading of each, empty for none.
        """
        wrong = [
            f"{where}printed {gap_text(cell)}, expected at most {self.limit:.1e} ({self.source})"
            for where, cell in zip(_places(columns, cells), cells, strict=True)
            if isinstance(cell, tuple) or not 0 <= cell <= self.limit
        ]
        return "; ".join(wrong) or None

    def shown(self, index: int, cell: Cell) -> str:
        """Show a distance."""
        del index
        return gap_text(cell)

    @property
    def expected(self) -> Cells:
        """The limit, as it goes into JSON."""
        return (self.limit,)

    @property
    def exact(self) -> list[str] | None:
        """A limit has no exact form."""
        return None


Assertion = Equals | AtMost


def _places(columns: tuple[str, ...], cells: Cells) -> list[str]:
    named = [f"{column}: " for column in columns] if len(cells) > 1 else []
    return named + [""] * (len(cells) - len(named))


def _full(cell: Cell) -> str:
    """A number with all its digits, so that a small difference can be seen."""
    if isinstance(cell, float) and math.isfinite(cell):
        return f"{cell:.17g}"
    return plain_text(cell)
