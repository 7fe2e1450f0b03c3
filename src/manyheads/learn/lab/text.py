"""Records for readers: plain text in 80 columns, and the same as HTML."""

from collections.abc import Sequence
from html import escape
from textwrap import wrap

from manyheads.learn.lab.record import Item, Record, Table

WIDTH = 80
_RULE = "─" * WIDTH
_GAP = "  "


def text_from_record(record: Record, *, is_try: bool) -> str:
    """One part, or one experiment, in text.

    Args:
        record: what was written down.
        is_try: whether it is an experiment; then the prediction comes first.
    """
    lines = [_RULE, _heading(record, is_try), _RULE]
    if is_try:
        lines += ["", *_paragraph(f"Predict first: {record.prediction}")]
    for block in record.blocks:
        lines += ["", *(_table(block) if isinstance(block, Table) else _paragraph(block))]
    if not is_try:
        lines += ["", *_paragraph(f"Predict: {record.prediction}")]
        lines += [f"  Try it:  manyheads lab --try {record.try_name}"]
    return "\n".join(lines)


def _heading(record: Record, is_try: bool) -> str:
    return f" Try {record.try_name}" if is_try else f" Part {record.part} · {record.title}"


def _paragraph(text: str) -> list[str]:
    return wrap(
        text, WIDTH - 2, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )


def _table(table: Table) -> list[str]:
    """The caption, the headings, and a row an item, numbers to the right."""
    rows = [("", *table.columns)] if table.columns else []
    rows += [(item.label, *item.texts) for item in table.items]
    marks = [""] * (len(rows) - len(table.items))
    marks += ["" if item.passed else "  <- FAILED" for item in table.items]
    count = max((len(row) for row in rows), default=0)
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(count)]
    lines = [_row(row, widths) + mark for row, mark in zip(rows, marks, strict=True)]
    return [f"  {table.caption}", *lines]


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    label, cells = row[0], row[1:]
    shown = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=False)]
    return _GAP.join(["    " + label.ljust(widths[0]), *shown]).rstrip()


def failure_lines(record: Record, *, is_try: bool) -> list[str]:
    """One line for each failed assertion, which names itself."""
    where = f"try {record.try_name}" if is_try else f"part {record.part}"
    return [f"FAILED  {where} · {text}" for text in record.failures]


def html_from_record(record: Record, *, is_try: bool) -> str:
    """One part, or one experiment, as HTML; arguments as in `text_from_record`."""
    prediction = f"<p><em>Predict: {escape(record.prediction)}</em></p>"
    blocks = "".join(
        _html_table(block) if isinstance(block, Table) else f"<p>{escape(block)}</p>"
        for block in record.blocks
    )
    failures = "".join(
        f"<p><strong>{escape(line)}</strong></p>" for line in failure_lines(record, is_try=is_try)
    )
    heading = f"<h4>{escape(_heading(record, is_try).strip())}</h4>"
    body = prediction + blocks if is_try else blocks + prediction
    return f"<section>{heading}{body}{failures}</section>"


def _html_table(table: Table) -> str:
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in ("", *table.columns))
    body = "".join(_html_row(item) for item in table.items)
    head = f"<thead><tr>{head}</tr></thead>" if table.columns else ""
    return f"<table><caption>{escape(table.caption)}</caption>{head}<tbody>{body}</tbody></table>"


def _html_row(item: Item) -> str:
    cells = "".join(f"<td>{escape(text)}</td>" for text in item.texts)
    return f"<tr><th scope='row'>{escape(item.label)}</th>{cells}</tr>"
