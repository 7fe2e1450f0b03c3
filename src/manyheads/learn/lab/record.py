"""The record of one part: words, tables, and numbers that cannot be printed without an assertion.

Numbers enter a record through one function, `Record.row`, which takes the measurement and at least
one assertion. Words enter through others, which refuse digits, except in names such as "head 1".
An assertion never raises and never returns a bool: it returns the text of its failure, which names
the printed value and the expected one, or None.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import torch
from torch import Tensor

from manyheads.core.compare import dot_budget
from manyheads.core.errors import LabError
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
    """Write the distance of two results: 0, or two digits and a power of ten."""
    return "0" if gap == 0 else f"{gap:.1e}" if isinstance(gap, float) else plain_text(gap)


@dataclass(frozen=True, kw_only=True)
class Equals:
    """The printed numbers are these, exactly or up to the rounding of so many products."""

    source: str
    """Where they come from: "fractions", "published", "by hand", "torch"."""
    numbers: tuple[Number | tuple[int, ...], ...]
    """One expected number, or shape, for each printed one."""
    length: int = 0
    """Length of the sums in double precision that may round; 0 requires equality."""

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
        """The wrong numbers as text, or None.

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
        """Show a printed number that is right: its exact form, then the measured decimals."""
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
    """Why a distance up to the limit is allowed."""
    limit: float
    """Largest distance that passes."""

    relation = "at most"

    def failure(self, cells: Cells, columns: tuple[str, ...]) -> str | None:
        """The distances beyond the limit as text, or None.

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


_NAMES = re.compile(
    r"\b(?:[Hh]ead|[Oo]utput|input|key|[Pp]art|position|value)s? [0-9]+(?: (?:and|to) [0-9]+)?\b"
)
Measurement = Callable[[], Tensor | tuple[Cell, ...]]
"""Gives a row of numbers (a tensor with one axis), or a tuple of counts, numbers and shapes."""


def words(text: str) -> str:
    """Return a text without numbers, except in names such as "head 1".

    Raises:
        LabError: the text has a digit outside such a name.
    """
    found = re.search(r"\S*[0-9]\S*", _NAMES.sub("", text))
    if found:
        raise LabError(
            f"text ({found.group()!r}) states a number without an assertion: measure it in a row"
        )
    return text


@dataclass(frozen=True, kw_only=True)
class Item:
    """One printed row of numbers and the assertions that it met or failed."""

    name: str
    """What was measured, for failure messages."""
    label: str
    """The first cell of the row."""
    cells: Cells
    """The measured numbers; empty where the measurement itself failed."""
    assertions: tuple[Assertion, ...]
    """At least one."""
    failures: tuple[str, ...]
    """Texts of the failed assertions."""

    def __post_init__(self) -> None:
        """Refuse an item without an assertion."""
        if not self.assertions:
            raise LabError(f"item ({self.name}) has no assertion: give one to every printed number")

    @property
    def passed(self) -> bool:
        """Whether every assertion held."""
        return not self.failures

    @property
    def texts(self) -> tuple[str, ...]:
        """The cells as they are printed; exact forms only where the assertions held."""
        if self.passed:
            return tuple(self.assertions[0].shown(i, cell) for i, cell in enumerate(self.cells))
        return tuple(plain_text(cell) for cell in self.cells) or ("not computed",)


@dataclass(kw_only=True)
class Measured:
    """A table of measured rows under a caption and column headings."""

    caption: str
    """What the numbers are."""
    columns: tuple[str, ...]
    """A heading for each number of a row, or none."""
    items: list[Item] = field(default_factory=list)
    """The rows so far."""


@dataclass(kw_only=True)
class Record:
    """The result of one part or one experiment."""

    part: int
    """Number of the part, from 1."""
    title: str
    """One line."""
    prediction: str
    """What the reader can predict, and `try_name` answers."""
    try_name: str
    """The experiment that answers the prediction."""
    blocks: list[str | Measured] = field(default_factory=list)
    """Paragraphs and tables in order."""
    broken: str | None = None
    """The error that stopped the part, or None."""

    def __post_init__(self) -> None:
        """Check the words of the heading and of the prediction."""
        words(self.title)
        words(self.prediction)

    def say(self, text: str) -> None:
        """Add a paragraph.

        Raises:
            LabError: the text states a number.
        """
        self.blocks.append(words(text))

    def table(self, caption: str, columns: tuple[str, ...] = ()) -> None:
        """Begin a table for the next rows.

        Raises:
            LabError: the caption or a heading states a number.
        """
        self.blocks.append(Measured(caption=words(caption), columns=tuple(map(words, columns))))

    def row(self, label: str, measure: Measurement, first: Assertion, *more: Assertion) -> None:
        """Measure a row of numbers, check its assertions, and record both.

        A measurement that raises is a failure of this row alone.

        Args:
            label: the first cell of the row.
            measure: gives the numbers.
            first: an assertion; its exact numbers are printed before the measured ones.
            *more: further assertions.

        Raises:
            LabError: no table has begun, or the label states a number.
        """
        table = self.blocks[-1] if self.blocks else None
        if not isinstance(table, Measured):
            raise LabError(f"row ({label}) has no table: begin one before it")
        assertions, cells = (first, *more), Cells()
        try:
            cells = _cells_from(measure())
            texts = [assertion.failure(cells, table.columns) for assertion in assertions]
        except Exception as error:  # the row records its error and the others go on
            texts = [
                f"printed nothing ({_error_text(error)}), expected {first.exact or first.expected}"
            ]
        table.items.append(
            Item(
                name=f"{table.caption}, {words(label)}",
                label=label,
                cells=cells,
                assertions=assertions,
                failures=tuple(text for text in texts if text),
            )
        )

    @property
    def items(self) -> list[Item]:
        """Every row of every table."""
        return [
            item for block in self.blocks if isinstance(block, Measured) for item in block.items
        ]

    @property
    def failures(self) -> list[str]:
        """Every failed assertion as text, with the name of the row."""
        found = [f"{item.name}: {text}" for item in self.items for text in item.failures]
        return (
            found if self.broken is None else [*found, f"the rest was not reached: {self.broken}"]
        )

    @property
    def passed(self) -> bool:
        """Whether the part finished, printed something, and every assertion held."""
        return bool(self.items) and not self.failures

    def write(self, part: Callable[["Record"], None]) -> None:
        """Run a part that fills this record; an error stops this part alone and is kept."""
        try:
            part(self)
        except Exception as error:  # the other parts still run
            self.broken = _error_text(error)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _cells_from(measured: Tensor | tuple[Cell, ...]) -> Cells:
    if isinstance(measured, tuple):
        return measured
    if measured.dim() != 1:
        raise LabError(f"measurement has shape {tuple(measured.shape)}: give one axis of numbers")
    return tuple(measured.detach().double().tolist())
