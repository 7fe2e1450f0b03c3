"""Tables of text in 80 columns, and the same tables as HTML; every text is escaped there."""

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape

WIDTH = 80
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A heading, named columns and rows of cells; the first columns name the row."""

    title: str
    """One line above the table."""
    columns: tuple[str, ...]
    """One name a column."""
    rows: tuple[tuple[str, ...], ...]
    """One cell a column in every row."""
    names: int = 1
    """How many columns from the left name the row; they are repeated where a table is split."""
    has_total: bool = False
    """Whether the last row sums up the others."""


def cell_width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def shortened(text: str, width: int) -> str:
    """Cut a text to a width, with an ellipsis of two dots."""
    if cell_width(text) <= width:
        return text
    while cell_width(text) > width - 2:
        text = text[:-1]
    return f"{text}.."


def wrapped(text: str, indent: str = "", later: str = "  ") -> list[str]:
    """Break a text into lines of 80 columns; a no-break space holds words together."""
    lines = textwrap.wrap(
        text.replace("\N{NO-BREAK SPACE}", "\0"),
        width=WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + later,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def _aligned(table: Table) -> Table:
    """Pad the numbers of each column on the right, so that their decimal points stand in line."""
    columns = list(zip(*table.rows, strict=True))
    for i in range(table.names, len(columns)):
        ends = [_NUMBER.fullmatch(cell) for cell in columns[i]]
        most = max((len(end.group(1) or "") for end in ends if end), default=0)
        columns[i] = tuple(
            cell + " " * (most - len(end.group(1) or "")) if end else cell
            for cell, end in zip(columns[i], ends, strict=True)
        )
    return replace(table, rows=tuple(zip(*columns, strict=True)))


def text_from_table(table: Table) -> str:
    """Write a table in 80 columns; one that is too wide goes on below itself."""
    table = _aligned(table)
    widths = [
        max(cell_width(row[i]) for row in (table.columns, *table.rows))
        for i in range(len(table.columns))
    ]
    blocks = [_block(table, widths, chosen) for chosen in _split(widths, table.names)]
    return "\n".join([*wrapped(table.title), *"\n\n".join(blocks).split("\n")])


def _split(widths: Sequence[int], names: int) -> list[list[int]]:
    """Share the columns out into blocks that fit, each with the naming columns."""
    first = list(range(names))
    start = sum(widths[i] + 2 for i in first)
    blocks, used = [first.copy()], start
    for i in range(names, len(widths)):
        if used + widths[i] + 2 > WIDTH and len(blocks[-1]) > names:
            blocks.append(first.copy())
            used = start
        blocks[-1].append(i)
        used += widths[i] + 2
    return blocks


def _block(table: Table, widths: Sequence[int], chosen: Sequence[int]) -> str:
    def line(cells: Sequence[str]) -> str:
        padded = []
        for i in chosen:
            gap = " " * (widths[i] - cell_width(cells[i]))
            padded.append(cells[i] + gap if i < table.names else gap + cells[i])
        return ("  " + "  ".join(padded)).rstrip()

    rule = "  " + "  ".join("-" * widths[i] for i in chosen)
    body = [line(row) for row in table.rows]
    if table.has_total:
        body.insert(len(body) - 1, rule)
    return "\n".join([line(table.columns), rule, *body])


def html_from_tables(heading: str, lines: Iterable[str], tables: Iterable[Table]) -> str:
    """Write a heading, lines and tables as HTML; nothing in them is taken as markup."""
    parts = [f"<h3>{escape(heading)}</h3>", *(f"<p>{escape(line)}</p>" for line in lines)]
    parts += [_html(table) for table in tables]
    return f'<div class="manyheads-worksheet">{"".join(parts)}</div>'


def _html(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    rows = "".join(f"<tr>{_html_row(table, row)}</tr>" for row in table.rows)
    caption = f"<caption>{escape(table.title)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _html_row(table: Table, row: Sequence[str]) -> str:
    names = [f'<th scope="row">{escape(cell)}</th>' for cell in row[: table.names]]
    return "".join([*names, *(f"<td>{escape(cell)}</td>" for cell in row[table.names :])])
