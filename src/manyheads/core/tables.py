"""One table as text in 80 columns, as HTML and as Markdown; every cell is escaped where needed."""

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape

from rich.cells import cell_len

WIDTH = 80
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_NUMERIC = re.compile(r"[-+]?[0-9][0-9,.e+-]*( (±|to) [-+]?[0-9][0-9,.]*)?|-")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&])")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A heading, named columns and rows of cells; the first columns name the row."""

    title: str
    """One line above the table."""
    columns: tuple[str, ...]
    """One name per column."""
    rows: tuple[tuple[str, ...], ...]
    """One cell per column in every row."""
    names: int = 1
    """Number of columns from the left that name the row; a split table repeats them."""
    has_total: bool = False
    """Whether the last row is the sum of the others."""

    @property
    def is_numeric(self) -> tuple[bool, ...]:
        """For each column, whether every cell is a number, an interval or a dash."""
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.columns)
        return tuple(all(_NUMERIC.fullmatch(cell) for cell in column) for column in columns)


def shortened(text: str, width: int) -> str:
    """Cut a text to a width, with an ellipsis of two dots."""
    if cell_len(text) <= width:
        return text
    while cell_len(text) > width - 2:
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
    """Pad the numbers of each column on the right, to align their decimal points."""
    columns = list(zip(*table.rows, strict=True))
    for i in range(table.names, len(columns)):
        ends = [_DECIMAL.fullmatch(cell) for cell in columns[i]]
        most = max((len(end.group(1) or "") for end in ends if end), default=0)
        columns[i] = tuple(
            cell + " " * (most - len(end.group(1) or "")) if end else cell
            for cell, end in zip(columns[i], ends, strict=True)
        )
    return replace(table, rows=tuple(zip(*columns, strict=True)))


def text_from_table(table: Table) -> str:
    """Write a table in 80 columns; a wider one is split into blocks, one below the other."""
    table = _aligned(table)
    widths = [
        max(cell_len(row[i]) for row in (table.columns, *table.rows))
        for i in range(len(table.columns))
    ]
    blocks = [_block(table, widths, chosen) for chosen in _split(widths, table.names)]
    return "\n".join([*wrapped(table.title), *"\n\n".join(blocks).split("\n")])


def _split(widths: Sequence[int], names: int) -> list[list[int]]:
    """Split the columns into blocks that fit, each with the columns that name the row."""
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
            gap = " " * (widths[i] - cell_len(cells[i]))
            padded.append(cells[i] + gap if i < table.names else gap + cells[i])
        return ("  " + "  ".join(padded)).rstrip()

    rule = "  " + "  ".join("-" * widths[i] for i in chosen)
    body = [line(row) for row in table.rows]
    if table.has_total:
        body.insert(len(body) - 1, rule)
    head = [line(table.columns), rule] if any(table.columns) else []
    return "\n".join([*head, *body])


def html_from_tables(heading: str, lines: Iterable[str], tables: Iterable[Table]) -> str:
    """Write a heading, paragraphs and tables as HTML, all escaped."""
    parts = [f"<h3>{escape(heading)}</h3>", *(f"<p>{escape(line)}</p>" for line in lines)]
    parts += [html_from_table(table) for table in tables]
    return f'<div class="manyheads-worksheet">{"".join(parts)}</div>'


def html_from_table(
    table: Table, *, has_caption: bool = True, typeset: Callable[[str], str] = escape
) -> str:
    """Write a table as HTML.

    Args:
        table: the table.
        has_caption: whether its title is the caption.
        typeset: turns a cell's text into HTML and escapes it.
    """
    kinds = [' class="num"' if is_numeric else "" for is_numeric in table.is_numeric]

    def row(cells: Sequence[str], names: int, scope: str) -> str:
        return "".join(
            f'<th scope="{scope}"{kind}>{typeset(cell)}</th>'
            if i < names
            else f"<td{kind}>{typeset(cell)}</td>"
            for i, (cell, kind) in enumerate(zip(cells, kinds, strict=True))
        )

    caption = f"<caption>{typeset(table.title)}</caption>" if has_caption else ""
    head = row(table.columns, len(table.columns), "col")
    head = f"<thead><tr>{head}</tr></thead>" if any(table.columns) else ""
    body = "".join(f"<tr>{row(cells, table.names, 'row')}</tr>" for cells in table.rows)
    return f"<table>{caption}{head}<tbody>{body}</tbody></table>"


def markdown_from_table(table: Table) -> str:
    """Write a table as Markdown, its title in italics above it."""
    rules = ("---:" if is_numeric else "---" for is_numeric in table.is_numeric)
    lines = [map(markdown_text, table.columns), rules]
    lines += [map(markdown_text, row) for row in table.rows]
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"*{markdown_text(table.title)}*\n\n{rows}"


def markdown_text(text: str) -> str:
    """One line of text with all Markdown and HTML escaped."""
    return (
        _MARKDOWN.sub(r"\\\1", " ".join(text.split()))
        .replace("\\<", "&lt;")
        .replace("\\&", "&amp;")
    )
