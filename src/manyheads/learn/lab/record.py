"""The record of one part: words, tables, and numbers that cannot be printed without an assertion.

Numbers enter a record by one door, `Record.row`, which takes the measurement and at least one
assertion. Words enter by others, which refuse digits, except in names such as "head 1".
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from manyheads.core.errors import LabError
from manyheads.learn.lab.assertions import Assertion, Cell, Cells, plain_text

_NAMES = re.compile(
    r"\b(?:[Hh]ead|[Oo]utput|input|key|[Pp]art|position|value)s? [0-9]+(?: (?:and|to) [0-9]+)?\b"
)
Measurement = Callable[[], Tensor | tuple[Cell, ...]]
"""Gives a row of numbers (a tensor with one axis), or a tuple of counts, numbers and shapes."""


def words(text: str) -> str:
    """Return a text that states no number; names such as "head 1" may stand in it.

    Raises:
        LabError: the text has a digit outside such a name.
    """
    found = re.search(r"\S*[0-9]\S*", _NAMES.sub("", text))
    if found:
        raise LabError(
            f"text ({found.group()!r}) states a number that nothing asserts: measure it in a row"
        )
    return text


@dataclass(frozen=True, kw_only=True)
class Item:
    """One printed row of numbers and the assertions that it met or failed."""

    name: str
    """What was measured, as a failure calls it."""
    label: str
    """How the row begins in its table."""
    cells: Cells
    """The measured numbers; empty where the measurement itself failed."""
    assertions: tuple[Assertion, ...]
    """At least one."""
    failures: tuple[str, ...]
    """What the assertions said, empty where all held."""

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
class Table:
    """Rows of numbers under a caption and column headings."""

    caption: str
    """What the numbers are."""
    columns: tuple[str, ...]
    """A heading for each number of a row, or none."""
    items: list[Item] = field(default_factory=list)
    """The rows so far."""


@dataclass(kw_only=True)
class Record:
    """What one part, or one experiment, wrote down."""

    part: int
    """Number of the part, from 1."""
    title: str
    """One line."""
    prediction: str
    """What the reader can predict, and `try_name` answers."""
    try_name: str
    """The experiment that answers the prediction."""
    blocks: list[str | Table] = field(default_factory=list)
    """Paragraphs and tables in order."""
    broken: str | None = None
    """The error that ended the part before its end, or None."""

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
        """Begin a table, to which the next rows belong.

        Raises:
            LabError: the caption or a heading states a number.
        """
        self.blocks.append(Table(caption=words(caption), columns=tuple(map(words, columns))))

    def row(self, label: str, measure: Measurement, first: Assertion, *more: Assertion) -> None:
        """Measure a row of numbers, hold it against its assertions, and write both down.

        A measurement that raises is a failure of this row alone.

        Args:
            label: how the row begins.
            measure: gives the numbers.
            first: what stands behind them; its exact numbers are printed beside the measured ones.
            *more: further assertions.

        Raises:
            LabError: no table has begun, or the label states a number.
        """
        table = self.blocks[-1] if self.blocks else None
        if not isinstance(table, Table):
            raise LabError(f"row ({label}) stands in no table: begin one before it")
        assertions, cells = (first, *more), Cells()
        try:
            cells = _cells_from(measure())
            said = [assertion.failure(cells, table.columns) for assertion in assertions]
        except Exception as error:  # whatever broke, the row names itself and the others go on
            said = [f"printed nothing ({_told(error)}), expected {first.exact or first.expected}"]
        table.items.append(
            Item(
                name=f"{table.caption}, {words(label)}",
                label=label,
                cells=cells,
                assertions=assertions,
                failures=tuple(text for text in said if text),
            )
        )

    @property
    def items(self) -> list[Item]:
        """Every row of every table."""
        return [item for block in self.blocks if isinstance(block, Table) for item in block.items]

    @property
    def failures(self) -> list[str]:
        """Every failed assertion in words, each with the name of what was printed."""
        found = [f"{item.name}: {text}" for item in self.items for text in item.failures]
        return (
            found if self.broken is None else [*found, f"the rest was not reached: {self.broken}"]
        )

    @property
    def passed(self) -> bool:
        """Whether the part came to its end, printed something, and every assertion held."""
        return bool(self.items) and not self.failures

    def write(self, part: Callable[["Record"], None]) -> None:
        """Let a part write its record; an error that it raises is kept and ends this part alone."""
        try:
            part(self)
        except Exception as error:  # the other parts still run
            self.broken = _told(error)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _cells_from(measured: Tensor | tuple[Cell, ...]) -> Cells:
    if isinstance(measured, tuple):
        return measured
    if measured.dim() != 1:
        raise LabError(f"measurement has shape {tuple(measured.shape)}: give one axis of numbers")
    return tuple(measured.detach().double().tolist())
