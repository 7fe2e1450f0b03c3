"""What a printed sheet consists of, before it is drawn: headings, texts, tables with boxes."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of a table: something given, or a box to write in."""

    text: str
    """What is given, or the answer, which only a key shows."""
    is_answer: bool = False
    """Whether it is a box to write in."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table."""

    names: tuple[str, ...]
    """What names the row, from the left."""
    cells: tuple[Cell | None, ...]
    """The cells after the names; None leaves a place empty."""
    is_total: bool = False
    """Whether it stands below a rule."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table of given numbers and boxes."""

    title: str
    """One line above it; "" for none."""
    columns: tuple[str, ...]
    """A name for each name of a row and for each cell."""
    rows: tuple[Row, ...]
    """At least one."""

    @property
    def names(self) -> int:
        """How many columns from the left name the row."""
        return len(self.rows[0].names)

    @property
    def has_answers(self) -> bool:
        """Whether any cell is a box to write in."""
        return any(cell is not None and cell.is_answer for row in self.rows for cell in row.cells)


@dataclass(frozen=True, kw_only=True)
class Band:
    """Tables that stand side by side where there is room."""

    grids: tuple[Grid, ...]
    """In reading order."""


@dataclass(frozen=True, kw_only=True)
class Heading:
    """A heading; it stays with what follows and is a bookmark of the file."""

    text: str
    """One line."""
    level: int = 0
    """0 for a part, 1 for a step."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """A paragraph."""

    text: str
    """Plain text."""


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Ruled lines to write on."""

    count: int
    """How many a blank sheet has."""
    answers: tuple[str, ...]
    """What a key says there instead, a paragraph each."""


Part = Band | Grid | Heading | Lines | Words


@dataclass(frozen=True, kw_only=True)
class Sheets:
    """A whole printed document; blank and key are the same with and without its answers."""

    title: str
    """Its heading."""
    label: str
    """What it is of, at the foot of every page."""
    parts: tuple[Part, ...]
    """In order."""


def texts_of(sheets: Sheets) -> list[str]:
    """Every text of a document, answers included."""
    found = [sheets.title, sheets.label]
    for part in sheets.parts:
        if isinstance(part, (Heading, Words)):
            found.append(part.text)
        elif isinstance(part, Lines):
            found += part.answers
        else:
            for grid in part.grids if isinstance(part, Band) else (part,):
                found += _grid_texts(grid)
    return found


def _grid_texts(grid: Grid) -> list[str]:
    cells = [cell.text for row in grid.rows for cell in row.cells if cell is not None]
    return [grid.title, *grid.columns, *(name for row in grid.rows for name in row.names), *cells]


def on_paper(text: str) -> str:
    """Write a number as by hand: 3*sqrt(2)/5 is 3√2/5, with a true minus sign.

    Args:
        text: a number as the worksheets write it.
    """
    text = re.sub(r"(?<!\w)-inf\b", "-\N{INFINITY}", text)
    text = re.sub(r"sqrt\((\d+)\)", "\N{SQUARE ROOT}\\1", text)
    text = re.sub(r"(?<=\d)\*(?=\N{SQUARE ROOT})", "", text).replace("*", "\N{MIDDLE DOT}")
    return re.sub(r"(?<!\de)-", "\N{MINUS SIGN}", text)
