"""LabReport: what a run of the lab computed, and whether every assertion held."""

import json
import math
from dataclasses import dataclass
from html import escape
from typing import Any

from manyheads.core.tables import WIDTH, Table, html_from_table, text_from_table, wrapped
from manyheads.learn.lab.record import Cells, Item, Measured, Record


@dataclass(frozen=True, kw_only=True)
class LabReport:
    """The records of the parts and experiments that ran."""

    parts: tuple[Record, ...]
    """Parts in order."""
    tries: tuple[Record, ...] = ()
    """Experiments in order."""

    @property
    def passed(self) -> bool:
        """Whether something ran and every assertion held."""
        records = (*self.parts, *self.tries)
        return bool(records) and all(record.passed for record in records)

    @property
    def failures(self) -> list[str]:
        """A line for each failed assertion: where, what, printed and expected."""
        found = [line for part in self.parts for line in _failure_lines(part, is_try=False)]
        return found + [line for each in self.tries for line in _failure_lines(each, is_try=True)]

    def to_json(self) -> str:
        """One JSON document with every printed number in full precision."""
        document = {
            "passed": self.passed,
            "parts": [_part_json(record) for record in self.parts],
            "tries": [_part_json(record) for record in self.tries],
        }
        return json.dumps(document, allow_nan=False, ensure_ascii=False)

    def __str__(self) -> str:
        """The report in 80 columns, failures last."""
        texts = [_text(record, is_try=False) for record in self.parts]
        texts += [_text(record, is_try=True) for record in self.tries]
        return "\n\n".join([*texts, *(["\n".join(self.failures)] if self.failures else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The report for Jupyter."""
        parts = "".join(_html(record, is_try=False) for record in self.parts)
        return parts + "".join(_html(record, is_try=True) for record in self.tries)


_RULE = "─" * WIDTH


def _text(record: Record, *, is_try: bool) -> str:
    """One part, or one experiment, in 80 columns; an experiment begins with its prediction."""
    parts = ["\n".join([_RULE, _heading(record, is_try), _RULE])]
    if is_try:
        parts.append(_paragraph(f"Predict first: {record.prediction}"))
    parts += [
        text_from_table(_table(block)) if isinstance(block, Measured) else _paragraph(block)
        for block in record.blocks
    ]
    if not is_try:
        parts.append(_paragraph(f"Predict: {record.prediction}"))
        parts[-1] += f"\nTry it:  manyheads lab --try {record.try_name}"
    return "\n\n".join(parts)


def _heading(record: Record, is_try: bool) -> str:
    return f" Try {record.try_name}" if is_try else f" Part {record.part} · {record.title}"


def _paragraph(text: str) -> str:
    return "\n".join(wrapped(text, later=""))


def _table(measured: Measured) -> Table:
    """The rows with their printed numbers; a row that failed is marked."""
    rows = [(i.label if i.passed else f"{i.label} <- FAILED", *i.texts) for i in measured.items]
    width = max(map(len, (("", *measured.columns), *rows)))
    filled = [(*row, *[""] * (width - len(row))) for row in (("", *measured.columns), *rows)]
    return Table(title=measured.caption, columns=filled[0], rows=tuple(filled[1:]))


def _failure_lines(record: Record, *, is_try: bool) -> list[str]:
    """One line for each failed assertion, with the name of the part and of the row."""
    where = f"try {record.try_name}" if is_try else f"part {record.part}"
    return [f"FAILED  {where} · {text}" for text in record.failures]


def _html(record: Record, *, is_try: bool) -> str:
    prediction = f"<p><em>Predict: {escape(record.prediction)}</em></p>"
    blocks = "".join(
        html_from_table(_table(block)) if isinstance(block, Measured) else f"<p>{escape(block)}</p>"
        for block in record.blocks
    )
    failures = "".join(
        f"<p><strong>{escape(line)}</strong></p>" for line in _failure_lines(record, is_try=is_try)
    )
    heading = f"<h4>{escape(_heading(record, is_try).strip())}</h4>"
    body = prediction + blocks if is_try else blocks + prediction
    return f"<section>{heading}{body}{failures}</section>"


def _part_json(record: Record) -> dict[str, Any]:
    return {
        "part": record.part,
        "title": record.title,
        "passed": record.passed,
        "values": [_item_json(item) for item in record.items],
        "failures": record.failures,
        "prediction": record.prediction,
        "try": record.try_name,
    }


def _item_json(item: Item) -> dict[str, Any]:
    first = item.assertions[0]
    return {
        "name": item.name,
        "value": _cells_json(item.cells),
        "relation": first.relation,
        "expected": _cells_json(first.expected),
        "exact": first.exact,
        "sources": [assertion.source for assertion in item.assertions],
        "passed": item.passed,
        "failures": list(item.failures),
    }


def _cells_json(cells: Cells) -> Any:  # noqa: ANN401 - a number, or a list of numbers and shapes
    plain = [
        None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in cells
    ]
    return plain[0] if len(plain) == 1 else plain
