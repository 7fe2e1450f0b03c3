"""A table of which input positions reach which output positions, as text and as HTML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from manyheads.core.text import printable

REACHED, NOT_REACHED = "#", "."
_MOST = 16
_LEGEND = (
    f"rows are output positions, columns input positions; {REACHED} = the input reaches the output"
)
ALL_REACHED = "Every input position reaches every output position."


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A table of which inputs reach which outputs."""

    cells: tuple[tuple[bool, ...], ...]
    """One row per output position, one column per input position."""
    rows: tuple[str, ...]
    """Label of each row."""
    columns: tuple[str, ...]
    """Label of each column."""
    note: str = ""
    """Note on rows and columns that were left out."""

    @property
    def is_full(self) -> bool:
        """Whether every input reaches every output, so that a sentence says it all."""
        return not self.note and all(map(all, self.cells))


def picture_from_evidence(evidence: Mapping[str, Any]) -> Picture | None:
    """The picture in a finding's evidence, or None.

    Args:
        evidence: with `influence`, a list of rows of numbers (one row per output position, one
            column per input position; 0 if the input does not reach the output), and optionally
            their labels `rows` and `columns`.
    """
    values = evidence.get("influence")
    if values is None or not _is_matrix(values):
        return None
    height, width = len(values), len(values[0])
    left_out = []
    if height > _MOST:
        left_out.append(f"outputs {_MOST + 1} to {height}")
    if width > _MOST:
        left_out.append(f"inputs {_MOST + 1} to {width}")
    return Picture(
        cells=tuple(tuple(bool(cell) for cell in row[:_MOST]) for row in values[:_MOST]),
        rows=_labels(evidence.get("rows"), height)[:_MOST],
        columns=_labels(evidence.get("columns"), width)[:_MOST],
        note=f"left out: {', '.join(left_out)}" if left_out else "",
    )


def _is_matrix(values: Any) -> bool:  # noqa: ANN401 - evidence may hold anything
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        return False
    rows = [row for row in values if isinstance(row, Sequence) and not isinstance(row, str)]
    is_even = len(rows) == len(values) and len({len(row) for row in rows}) == 1 and len(rows[0]) > 0
    return is_even and all(isinstance(cell, int | float) for row in rows for cell in row)


def _labels(given: Any, count: int) -> tuple[str, ...]:  # noqa: ANN401 - evidence may hold anything
    is_given = isinstance(given, Sequence) and not isinstance(given, str) and len(given) == count
    return (
        tuple(printable(str(label))[:12] for label in given)
        if is_given
        else tuple(str(i + 1) for i in range(count))
    )


def text_from_picture(picture: Picture) -> list[str]:
    """Lines of text: a heading with the input positions, then one line per output position."""
    width = max(map(len, picture.columns))
    left = max(map(len, picture.rows))
    heads = " ".join(label.rjust(width) for label in picture.columns)
    lines = [f"{'input'.rjust(left + 7)}  {heads}"]
    for i, (label, row) in enumerate(zip(picture.rows, picture.cells, strict=True)):
        marks = " ".join((REACHED if cell else NOT_REACHED).rjust(width) for cell in row)
        lines.append(f"{'' if i else 'output':<6} {label.rjust(left)}  {marks}")
    return [*lines, f"({_LEGEND}{'; ' + picture.note if picture.note else ''})"]


def html_from_picture(picture: Picture) -> str:
    """A table whose cells also say in words which inputs reach which outputs."""
    heads = "".join(f"<th scope='col'>{escape(label)}</th>" for label in picture.columns)
    rows = "".join(
        f"<tr><th scope='row'>{escape(label)}</th>{''.join(map(_html_cell, row))}</tr>"
        for label, row in zip(picture.rows, picture.cells, strict=True)
    )
    note = f"; {escape(picture.note)}" if picture.note else ""
    return (
        f"<table class='mh-picture'><caption>{escape(_LEGEND)}{note}</caption>"
        f"<thead><tr><th scope='col'>output \\ input</th>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _html_cell(reached: bool) -> str:
    if reached:
        return f"<td class='mh-reached' title='reaches'>{REACHED}</td>"
    return f"<td title='does not reach'>{NOT_REACHED}</td>"
